// The kernels that take the most time, as bars on the overview.

import { base, chart, isNarrow, labeled } from "../chart.mjs";
import { hue } from "../colors.mjs";
import { doc, isMeasured, timeOf, titleOf } from "../data.mjs";
import { el } from "../dom.mjs";
import { micro, percent } from "../figures.mjs";

export function timeChart() {
  const rows = [...doc.kernels].filter((k) => timeOf(k) > 0).sort((a, b) => timeOf(b) - timeOf(a)).slice(0, 12);
  if (!rows.length) return el("p", { class: "none" }, "No kernel takes any time.");
  const total = d3.sum(doc.kernels, timeOf);
  const name = (k) => titleOf(k, isNarrow() ? 0 : 28);
  const { options, step, marks, y, inset } = labeled(rows, { name, end: (k) => `${micro(timeOf(k))}  ${percent(timeOf(k) / total)}`, value: timeOf, order: rows.map(name) });
  return chart(Plot.plot({
    ...base(), ...options, marginBottom: 42, height: step * rows.length + 60,
    x: { label: isMeasured() ? "µs measured" : "µs predicted", grid: true, ticks: isNarrow() ? 4 : undefined }, y,
    marks: [Plot.barX(rows, { x: timeOf, y: name, fill: (k) => hue(k.kind), rx: 2, insetTop: inset }), ...marks],
  }), `The ${rows.length} kernels that take the most time`);
}
