// Errors of stages, of kernels alone and of outputs.

import { base, chart, chartWidth } from "../chart.mjs";
import { HUES, variable } from "../colors.mjs";
import { doc, titleOf } from "../data.mjs";
import { el } from "../dom.mjs";
import { error, known } from "../figures.mjs";
import { table } from "../table.mjs";

export function errorsView() {
  const c = doc.check;
  if (!c) return [el("p", { class: "empty" }, "This build was not checked. edgec build --report holds it against a reference, unless --quick.")];
  const stagesOf = c.stages.map((s) => ({ ...s, shown: Math.max(s.max_rel ?? 1, 1e-9) }));
  const alone = c.blocks.filter((b) => known(b.max_rel)).map((b) => ({ ...b, shown: Math.max(b.max_rel, 1e-9) }));
  const bound = [Plot.ruleX([c.tolerance], { stroke: HUES[5], strokeDasharray: "5 4" }), Plot.text([c.tolerance], { x: (v) => v, frameAnchor: "top", dy: -8, text: () => "tolerance", fill: "currentColor" })];
  const axis = { type: "log", label: "error, of the largest value →", grid: true, tickFormat: ".0e", ticks: chartWidth() / 120 };
  return [
    el("p", {}, `Beside ${c.reference}; ${c.ok ? "everything is" : "not everything is"} within ${error(c.tolerance)}.`),
    el("h2", {}, "Stage by stage"),
    chart(Plot.plot({ ...base(), height: 40 * stagesOf.length + 50, marginLeft: 90, x: { ...axis, domain: [1e-9, Math.max(c.tolerance * 3, d3.max(stagesOf, (s) => s.shown) * 2)] }, y: { label: null, domain: stagesOf.map((s) => s.stage) },
      marks: [Plot.ruleY(stagesOf, { x1: 1e-9, x2: "shown", y: "stage", stroke: HUES[0], strokeWidth: 10 }), bound,
        Plot.text(stagesOf, { x: "shown", y: "stage", dx: 8, textAnchor: "start", fill: "currentColor", text: (s) => (s.max_rel ? `${error(s.max_rel)}, ${error(s.added_rel)} added` : "none") })] }), "Error of every stage beside the reference"),
    el("h2", {}, "Every kernel alone"),
    alone.length ? chart(Plot.plot({ ...base(), height: 260, marginLeft: 58, x: { label: "kernel →" }, y: { type: "log", label: "↑ error, of the largest value", grid: true, tickFormat: ".0e", ticks: 6 },
      marks: [Plot.ruleY([c.tolerance], { stroke: HUES[5], strokeDasharray: "5 4" }), Plot.ruleX(alone, { x: "kernel", y1: 1e-9, y2: "shown", stroke: HUES[0], strokeOpacity: 0.4 }), Plot.dot(alone, { x: "kernel", y: "shown", fill: HUES[0], r: 3.5 }),
        Plot.tip(alone, Plot.pointer({ x: "kernel", y: "shown", fill: variable("--raised"), title: (b) => `${titleOf(doc.kernels[b.kernel])}\n${error(b.max_rel)}` }))] }), "Error of every kernel alone") : el("p", { class: "none" }, "Kernels were not run alone."),
    el("h2", {}, "Outputs"),
    table("Outputs", [
      { title: "output", value: (o) => o.name, cell: (o) => o.name }, { title: "largest difference", number: true, value: (o) => o.max_abs, cell: (o) => error(o.max_abs) },
      { title: "of the largest value", number: true, value: (o) => o.max_rel, cell: (o) => error(o.max_rel) }, { title: "verdict", value: (o) => o.ok, cell: (o) => `${o.ok ? "ok" : "beyond the tolerance"}${o.mismatches ? `, ${o.mismatches} of ${o.elements} differ` : ""}` },
    ], c.outputs),
  ];
}
