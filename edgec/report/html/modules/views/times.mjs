// The kernels that take the most time, as bars on the overview.

import { base, chart, chartWidth } from "../chart.mjs";
import { hue } from "../colors.mjs";
import { doc, isMeasured, timeOf, titleOf } from "../data.mjs";
import { el } from "../dom.mjs";
import { micro, percent } from "../figures.mjs";

export function timeChart() {
  const rows = [...doc.kernels].filter((k) => timeOf(k) > 0).sort((a, b) => timeOf(b) - timeOf(a)).slice(0, 12);
  if (!rows.length) return el("p", { class: "none" }, "No kernel takes any time.");
  const total = d3.sum(doc.kernels, timeOf);
  return chart(Plot.plot({
    ...base(), marginLeft: Math.min(300, chartWidth() * 0.42), marginRight: 90, height: 26 * rows.length + 40,
    x: { label: isMeasured() ? "µs measured" : "µs predicted", grid: true }, y: { label: null },
    marks: [
      Plot.barX(rows, { x: timeOf, y: titleOf, fill: (k) => hue(k.kind), sort: { y: "-x" }, rx: 2 }),
      Plot.text(rows, { x: timeOf, y: titleOf, text: (k) => `${micro(timeOf(k))}  ${percent(timeOf(k) / total)}`, dx: 6, textAnchor: "start", fill: "currentColor" }),
    ],
  }), `The ${rows.length} kernels that take the most time`);
}
