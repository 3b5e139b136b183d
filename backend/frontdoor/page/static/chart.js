// Tokens a second in the last two minutes, stacked by the model that wrote them,
// and the prediction as a line of dashes.
import { draw, figure, make, mark } from "./text.js";

const width = 600, height = 150, seconds = 120, smooth = 3;

export class Chart {
  constructor(at) {
    this.svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    this.most = make("span", { class: "most" });
    this.half = make("span", { class: "half" });
    at.append(this.svg, this.most, this.half, make("span", { class: "from" }, "−2 min"), make("span", { class: "middle" }, "−1 min"), make("span", { class: "to" }, "now"));
  }

  show(history) {
    const points = this.points(history);
    const top = roundUp(Math.max(1, ...points.map((p) => Math.max(p.sums[p.sums.length - 1] ?? 0, p.predicted ?? 0))));
    this.most.textContent = figure(top);
    this.half.textContent = figure(top / 2);
    const now = history.last().now_ms;
    const x = (p) => (width * (1 - (now - p.at) / (1000 * seconds))).toFixed(1);
    const y = (value) => (height * (1 - value / top)).toFixed(1);
    const parts = [draw("path", { class: "grid", d: `M0 ${y(top / 2)}H${width}M${width / 2} 0V${height}` })];
    history.last().models.forEach((_, m) => {
      if (points.length < 2) return;
      const upper = points.map((p) => `${x(p)} ${y(p.sums[m])}`);
      const lower = points.map((p) => `${x(p)} ${y(m > 0 ? p.sums[m - 1] : 0)}`).reverse();
      parts.push(draw("path", { class: "area " + mark(m), d: "M" + upper.concat(lower).join("L") + "Z" }));
      parts.push(draw("path", { class: "line " + mark(m), d: "M" + upper.join("L") }));
    });
    let dashes = "";
    points.forEach((p, i) => {
      if (p.predicted === null) return;
      dashes += (i > 0 && points[i - 1].predicted !== null ? "L" : "M") + `${x(p)} ${y(p.predicted)}`;
    });
    parts.push(draw("path", { class: "predicted", d: dashes }));
    this.svg.replaceChildren(...parts);
  }

  /** For each instant: what the models wrote a second, each added to those before it. */
  points(history) {
    const points = [];
    const from = history.last().now_ms - 1000 * seconds;
    for (let i = 1; i < history.list.length; i++) {
      const status = history.list[i];
      if (status.now_ms < from) continue;
      let sum = 0;
      const sums = status.models.map((_, m) => (sum += history.growth(smooth, (s) => s.models[m].tokens, i).perSecond));
      points.push({ at: status.now_ms, sums, predicted: status.predicted_tok_per_s });
    }
    return points;
  }
}

/** The next number of which half is short too. */
function roundUp(x) {
  const scale = 10 ** Math.floor(Math.log10(x));
  return scale * [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((m) => m * scale >= x);
}
