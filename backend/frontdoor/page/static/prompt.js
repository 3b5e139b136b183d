// The box to try a prompt in.
import { figure, make, mark, percent, say } from "./text.js";

const at = (id) => document.getElementById(id);
const form = at("form"), answer = at("answer");

let names = [], models = [], thresholds = true; // as the server told them
let chosen = ""; // the key, once it is no longer being written
let wake = () => {}; // ends the page's pause
let under; // the controller of the answer that is under way
let tally; // of the present answer
let pieces = []; // of it that are not shown yet
let frame = 0; // in which they will be

/** Takes over what the server offers. */
export function offer(status) {
  at("key-label").hidden = !status.key_needed;
  if (JSON.stringify(status.names) !== JSON.stringify(names) || status.thresholds !== thresholds) {
    const before = at("model").value;
    names = status.names;
    thresholds = status.thresholds;
    at("model").replaceChildren(...names.map((n) => make("option", { value: n.name }, n.name + (n.routed ? "" : " alone"))));
    if (names.some((n) => n.name === before)) at("model").value = before;
    choose();
  }
  const [chat] = at("as").options;
  if (chat.disabled === status.chat) {
    chat.disabled = !status.chat;
    at("as").value = status.chat ? "chat" : "text";
  }
  const told = status.models.map((m) => m.name);
  if (JSON.stringify(told) !== JSON.stringify(models)) {
    models = told;
    showWriters();
  }
}

/** The header that shows the key, if there is one. */
export function credentials(key = at("key").value) {
  return key === "" ? {} : { Authorization: "Bearer " + key };
}

/** Whether it is the key that headers show which a server refuses, and not the first letters of one. */
export function refuses(headers) {
  return chosen !== "" && headers.Authorization === credentials(chosen).Authorization;
}

/** Waits until the key is another one. */
export function heard() {
  return new Promise((done) => (wake = done));
}

function chooseKey() {
  chosen = at("key").value;
  wake();
}

/** A threshold says when a token goes to another model: one alone has none, nor has routing that draws. */
function choose() {
  at("threshold").disabled = !thresholds || !names.some((n) => n.routed && n.name === at("model").value);
  at("threshold").placeholder = at("threshold").disabled ? "none" : "auto";
}

function body() {
  const chat = at("as").value === "chat";
  const fields = {
    model: at("model").value || undefined, // of a server that has told none yet
    max_tokens: Number(at("max-tokens").value),
    stream: true,
    custom_params: { return_writers: true },
  };
  if (chat) fields.messages = [{ role: "user", content: at("prompt").value }];
  else fields.prompt = at("prompt").value;
  if (at("temperature").value !== "") fields.temperature = Number(at("temperature").value);
  if (at("threshold").value !== "" && !at("threshold").disabled) fields.custom_params.threshold = Number(at("threshold").value);
  return { path: chat ? "v1/chat/completions" : "v1/completions", fields };
}

async function send(event) {
  event.preventDefault();
  if (under) return;
  const controller = (under = new AbortController());
  at("send").disabled = true;
  at("stop").disabled = false;
  answer.replaceChildren();
  answer.classList.remove("failed");
  answer.setAttribute("aria-busy", "true");
  tally = { tokens: 0, by: models.map(() => 0), start: performance.now(), first: 0, end: 0, why: "" };
  showTally();
  say(at("said"), "sent");
  try {
    await stream(controller.signal);
  } catch (e) {
    showPieces();
    if (controller.signal.aborted) tally.why = "stopped";
    else fail(e);
  }
  tally.end = performance.now();
  under = undefined;
  at("send").disabled = false;
  at("stop").disabled = true;
  answer.setAttribute("aria-busy", "false");
  showPieces();
  say(at("said"), at("tally").textContent);
}

function fail(e) {
  tally.why = "failed";
  answer.classList.add("failed");
  answer.append(make("p", { class: "problem" }, e instanceof TypeError ? "The server does not answer." : e.message));
}

async function stream(signal) {
  const { path, fields } = body();
  const headers = { "Content-Type": "application/json", ...credentials() };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(fields), signal });
  if (!response.ok) {
    if (response.status === 401) {
      at("key-label").hidden = false;
      at("key").focus();
      throw new Error(headers.Authorization ? "That is not the server's key." : "The server wants its key.");
    }
    throw new Error(await problem(response));
  }
  for await (const data of events(response.body)) {
    if (data === "[DONE]") return;
    const event = JSON.parse(data);
    if (event.error) throw new Error(event.error.message);
    for (const choice of event.choices) take(choice);
  }
  throw new Error("The answer broke off.");
}

/** What the server says is wrong. */
async function problem(response) {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text);
    return error.message ?? String(error);
  } catch {
    return `The server says ${response.status}: ${text.slice(0, 200)}`;
  }
}

/** The data of server-sent events, one by one. */
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield part.slice(6);
  }
}

/** Takes in a piece of the answer. Its text belongs to the last of its writers. */
function take(choice) {
  const text = choice.delta?.content ?? choice.text ?? "";
  const writers = (choice.writers ?? []).map((name) => models.indexOf(name));
  if (writers.length > 0 && tally.first === 0) tally.first = performance.now();
  for (const w of writers) {
    tally.tokens++;
    if (w >= 0) tally.by[w]++;
  }
  if (text !== "") {
    const last = writers[writers.length - 1] ?? -1;
    pieces.push(make("span", last < 0 ? {} : { class: "token " + mark(last), title: models[last] }, text));
  }
  if (choice.finish_reason) tally.why = choice.finish_reason;
  frame ||= requestAnimationFrame(showPieces);
}

/** Shows what came since the last frame. To do it for each token would take longer than they take to come. */
function showPieces() {
  cancelAnimationFrame(frame);
  frame = 0;
  const follow = answer.scrollTop + answer.clientHeight > answer.scrollHeight - 8;
  answer.append(...pieces);
  pieces = [];
  if (follow) answer.scrollTop = answer.scrollHeight;
  showTally();
}

function showTally() {
  const t = tally;
  const parts = [t.tokens === 1 ? "1 token" : figure(t.tokens) + " tokens"];
  if (t.first > 0) {
    parts.push(`the first after ${figure(t.first - t.start)} ms`);
    const s = ((t.end || performance.now()) - t.first) / 1000;
    if (t.tokens > 1 && s > 0) parts.push(figure((t.tokens - 1) / s) + " tokens/s");
  }
  if (t.why !== "") parts.push({ stop: "ended by itself", length: "ended at max_tokens", abort: "aborted by the server" }[t.why] ?? t.why);
  at("tally").textContent = parts.join(", ");
  showWriters();
}

function showWriters() {
  const list = at("writers");
  if (list.children.length !== models.length || models.some((name, m) => list.children[m].dataset.name !== name)) {
    list.replaceChildren(...models.map((name, m) => {
      const item = make("li", {}, make("span", { class: "token " + mark(m) }, name), " ", make("span", { class: "count" }));
      item.dataset.name = name;
      return item;
    }));
  }
  models.forEach((_, m) => {
    const n = tally?.by[m] ?? 0;
    list.children[m].querySelector(".count").textContent = tally?.tokens > 0 ? `${figure(n)} (${percent(n / tally.tokens)})` : "";
  });
}

const stop = () => under?.abort();

form.addEventListener("submit", send);
at("model").addEventListener("change", choose);
at("stop").addEventListener("click", stop);
at("key").addEventListener("change", chooseKey);
at("key").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  chooseKey();
  if (at("prompt").value !== "") form.requestSubmit(); // else the browser would ask for a prompt
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && form.contains(event.target)) form.requestSubmit();
});
