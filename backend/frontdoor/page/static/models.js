// One card for each subserver.
import { draw, figure, make, mark, percent, say } from "./text.js";

const lately = 5; // seconds over which figures are means

/** Figures of a card: name, what it means, how it is read. */
const figures = [
  ["running", "requests in the step under way, or ready for the next one", (m) => figure(m.running)],
  ["ready", "those of them that wait for the next step", (m) => figure(m.ready)],
  ["pending", "requests of this home that are away at another model; their KV is kept", (m) => figure(m.pending)],
  ["waiting", "requests that are not taken in yet, for want of a place or of KV", (m) => figure(m.waiting)],
  ["away", "requests of other homes that are not here now; their KV is kept", (m) => figure(m.away)],
  ["B", "threshold in force: ready requests for which a step waits", (m) => figure(m.b)],
  ["mean batch", "tokens sampled a step, mean of the last five seconds", (_, r) => figure(r.sampled.grown / r.steps.grown)],
  ["step, ms", "mean of the last five seconds", (_, r) => figure((1000 * r.busy.grown) / r.steps.grown)],
  ["busy", "share of the last five seconds in which a step was under way", (_, r) => percent(Math.min(1, r.busy.perSecond))],
];

export class Cards {
  constructor(at) {
    this.at = at;
    this.names = "";
  }

  show(history) {
    const { models } = history.last();
    const names = JSON.stringify(models.map((m) => [m.name, m.home, m.here]));
    if (names !== this.names) {
      this.names = names;
      this.cards = models.map((m, i) => new Card(m, i));
      this.at.replaceChildren(...this.cards.map((c) => c.root));
    }
    this.cards.forEach((c) => c.show(history));
  }
}

class Card {
  constructor(model, index) {
    this.index = index;
    this.rate = make("b");
    this.predicted = make("span", { class: "quiet" });
    this.values = figures.map(() => make("b"));
    this.bars = draw("svg", { viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" });
    this.ticks = make("div", { class: "ticks quiet", "aria-hidden": "true" });
    this.b = make("span");
    this.held = draw("rect", { class: "held", y: 0, height: 8, x: 0, width: 0 });
    this.cached = draw("rect", { class: "cached", y: 0, height: 8, x: 0, width: 0 });
    this.kv = make("span");
    this.problem = make("p", { class: "problem" });
    const badge = model.home ? "home" : model.here ? "" : "elsewhere";
    this.histogram = make("div", { class: "histogram" }, make("abbr", { class: "quiet", title: "requests in a step; from nine on a bar is for all sizes above the one before it" }, "steps by batch size, last ten seconds"),
      this.bars, this.ticks, make("div", { class: "quiet" }, make("span", { class: "swatch", "aria-hidden": "true" }), this.b));
    this.root = make("article", { class: "card " + mark(index), "aria-label": model.name },
      make("h3", {}, make("span", { class: "swatch " + mark(index), "aria-hidden": "true" }), make("span", { class: "name", title: model.name }, model.name),
        make("small", { class: "badge" }, badge)),
      make("p", { class: "rate" }, this.rate, " tokens/s ", this.predicted),
      make("dl", {}, ...figures.map(([name, meaning], i) => make("div", {}, make("dt", {}, make("abbr", { title: meaning }, name)), make("dd", {}, this.values[i])))),
      this.histogram,
      make("p", { class: "kv" }, make("span", { class: "quiet" }, "KV "), this.kv),
      draw("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, this.held, this.cached),
      this.problem);
  }

  show(history) {
    const m = history.last().models[this.index];
    const of = (name) => history.growth(lately, (s) => s.models[this.index][name]);
    const rates = { steps: of("steps"), sampled: of("sampled"), busy: of("busy_s") };
    this.rate.textContent = figure(history.speed(lately, (s) => s.models[this.index].tokens));
    this.predicted.textContent = m.predicted_tok_per_s === null ? "" : "predicted " + figure(m.predicted_tok_per_s);
    figures.forEach(([, , read], i) => (this.values[i].textContent = m.here ? read(m, rates) : "–"));
    this.showBatches(history, m);
    const [held, cached] = [m.kv_held, m.kv_cached].map((tokens) => (m.kv_total > 0 ? (100 * tokens) / m.kv_total : 0));
    this.held.setAttribute("width", held);
    this.cached.setAttribute("x", held);
    this.cached.setAttribute("width", cached);
    this.kv.textContent = m.kv_total > 0 ? `${percent(held / 100)} held, ${percent(cached / 100)} cached, of ${figure(m.kv_total)}` : "–";
    say(this.problem, m.problem);
  }

  /** Bars by batch size, up to the largest one that occurred, with B marked. A bar for several sizes is as high as their mean. */
  showBatches(history, m) {
    this.histogram.hidden = m.batches === null;
    if (m.batches === null) return;
    const grown = m.batches.map((_, i) => {
      const sizes = m.batches[i].upto - (m.batches[i - 1]?.upto ?? 0);
      return history.growth(10, (s) => s.models[this.index].batches?.[i]?.steps ?? 0).grown / Math.max(1, sizes);
    });
    const b = m.batches.findIndex((x) => x.upto >= m.b);
    const shown = Math.max(8, b + 1, m.batches.findLastIndex((x) => x.steps > 0) + 1);
    const all = m.batches.slice(0, shown);
    const step = 100 / all.length, most = Math.max(1, ...grown);
    this.bars.replaceChildren(...all.map((_, i) => {
      const h = (26 * grown[i]) / most;
      return draw("rect", { class: i === b ? "atB" : "", x: i * step + 0.1 * step, width: 0.8 * step, y: 27 - h, height: h + 1 });
    }));
    this.b.textContent = "B = " + m.b;
    if (this.ticks.children.length !== all.length) this.ticks.replaceChildren(...ticks(all.map((x) => x.upto)));
  }
}

/** A tick below each bar, with its size where that is a power of two, or the last. Its neighbour gives way to that one. */
function ticks(sizes) {
  const last = sizes.length - 1;
  return sizes.map((size, i) => make("span", {}, i === last || (i < last - 1 && Number.isInteger(Math.log2(size))) ? String(size) : ""));
}
