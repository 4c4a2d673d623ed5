// A memory table as a waterfall: a row per line, its bar where the lines before it end, its range as a whisker.

import { element, svg } from "./dom.js";

const WIDTH = 1000;
const HEIGHT = 20;

export function waterfall(chart) {
  const rows = chart.bars.map((bar) => row(bar, chart.scale));
  return element("figure.waterfall", { "data-memory": chart.memory }, element("figcaption", {}, chart.title), element("ol", {}, ...rows));
}

function row(bar, scale) {
  const x = (bytes) => ((bytes / scale) * WIDTH).toFixed(1);
  const drawn = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  drawn.append(svg("rect", { class: `kind-${bar.kind}`, x: x(bar.start), y: 3, width: Math.max(2, x(bar.size)), height: HEIGHT - 6 }));
  if (bar.to !== null) {
    const [from, to, middle] = [x(bar.from), x(bar.to), HEIGHT / 2];
    const path = `M${from} ${middle - 5}V${middle + 5}M${from} ${middle}H${to}M${to} ${middle - 5}V${middle + 5}`;
    drawn.append(svg("path", { class: "whisker under", d: path }), svg("path", { class: "whisker", d: path }));
  }
  const title = [bar.note, bar.source].filter(Boolean).join("\n");
  return element(
    "li",
    { title },
    element("span.name", {}, bar.name),
    drawn,
    element("span.size", {}, bar.text),
    element("span.range", {}, bar.interval),
  );
}
