// Asks the server once a second how things stand, and shows it.
import { Cards } from "./models.js";
import { Chart } from "./chart.js";
import { History } from "./history.js";
import { credentials, heard, offer, refuses } from "./prompt.js";
import { figure, make, mark, percent, percentiles, say } from "./text.js";

const every = 1000, patience = 5000, longest = 8000; // ms
const at = (id) => document.getElementById(id);
const history = new History(), cards = new Cards(at("models")), chart = new Chart(at("chart"));
let lost; // when the server stopped to answer
let legend = "";

const states = { starting: "starting: the models are not there yet", serving: "live", draining: "shutting down: takes no further prompts", broken: "broken",
  locked: "wants its key: write it below the prompt" };
const refused = "wrong key: write another one below the prompt";

async function ask(headers) {
  const answer = await fetch("page/status", { headers, cache: "no-store", signal: AbortSignal.timeout(patience) });
  if (!answer.ok) throw new Error("status " + answer.status);
  return answer.json();
}

function show(status, headers) {
  history.add(status);
  lost = undefined;
  const text = status.state === "locked" && refuses(headers) ? refused : states[status.state];
  setState(status.state, text + (status.problem ? ": " + status.problem : ""));
  say(at("version"), status.version);
  offer(status);
  showFigures(status);
  cards.show(history);
  chart.show(history);
}

function showFigures(status) {
  const sum = (field) => (s) => s.models.reduce((n, m) => n + m[field], 0);
  const routed = (s) => s.models.reduce((n, m) => n + (m.home ? 0 : m.routed_tokens), 0);
  at("rate").textContent = figure(history.speed(5, sum("tokens")));
  at("rate-predicted").textContent = status.predicted_tok_per_s === null ? "" : "predicted " + figure(status.predicted_tok_per_s);
  at("share").textContent = percent(history.growth(30, routed).grown / history.growth(30, sum("routed_tokens")).grown);
  at("running").textContent = figure(status.running);
  at("waiting").textContent = figure(status.waiting);
  at("ttft").textContent = percentiles(status.ttft);
  at("itl").textContent = percentiles(status.itl);
  const names = JSON.stringify(status.models.map((m) => m.name));
  if (names !== legend) {
    legend = names;
    at("legend").replaceChildren(...status.models.map((m, i) => make("span", {}, make("span", { class: "swatch " + mark(i) }), m.name)),
      make("span", { class: "dashes" }, "predicted"));
  }
  at("legend").classList.toggle("unpredicted", status.predicted_tok_per_s === null);
}

function setState(state, text) {
  at("state").dataset.state = state;
  say(at("state"), text);
  document.body.classList.toggle("stale", state === "lost");
}

/** Waits until there is another key, but no longer than that; and longer while nobody sees the page. */
async function pause(ms) {
  await Promise.race([new Promise((done) => setTimeout(done, ms)), heard()]);
  if (document.hidden) await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
}

for (let wait = every; ; ) {
  let status;
  const headers = credentials();
  try {
    status = await ask(headers);
  } catch {
    lost ??= new Date().toLocaleTimeString();
    setState("lost", `the server does not answer since ${lost}; trying again`);
  }
  if (status) show(status, headers);
  document.body.classList.remove("waiting");
  wait = status ? every : Math.min(2 * wait, longest);
  await pause(wait);
}
