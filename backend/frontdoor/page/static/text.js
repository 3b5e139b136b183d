// How figures are written, and how elements are made.

/** Three digits that count; – for what is not known. */
export function figure(x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–";
  if (Math.abs(x) >= 1000) return Math.round(x).toLocaleString("en");
  return String(Number(x.toPrecision(3)));
}

export function percent(x) {
  return Number.isFinite(x) ? (100 * x).toFixed(x === 0 || x >= 0.1 ? 0 : 1) + " %" : "–";
}

export function percentiles(p) {
  return p ? [p.p50_ms, p.p90_ms, p.p99_ms].map(figure).join(" · ") : "–";
}

/** The mark of a model: a colour and, for who sees none, a kind of line. */
export function mark(model) {
  return "w" + (model % 6);
}

/** Sets text only where it changed, so that screen readers hear no echo. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function make(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function draw(name, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
