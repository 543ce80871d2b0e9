// Errors of stages, of kernels alone and of outputs.

import { base, chart, chartWidth, labeled } from "../chart.mjs";
import { HUES, variable } from "../colors.mjs";
import { doc, titleOf } from "../data.mjs";
import { el } from "../dom.mjs";
import { counted, error, known } from "../figures.mjs";
import { table } from "../table.mjs";
import { layersTable } from "./layers.mjs";

/** The verdict: of compression and of the code that was generated apart, since the tolerance of rounding is for code. */
function said(c, e) {
  const inputs = e.inputs === "calibration" ? "the first input of the calibration data" : "a random input";
  if (!e.is_compressed) return [el("p", {}, `Beside ${c.reference}, on ${inputs}; ${c.ok ? "everything is" : "not everything is"} within ${error(c.tolerance)}.`)];
  const f = e.fidelity;
  const alone = e.kernels_run ? `${e.kernels_right} of ${counted(e.kernels_run, "kernel")} within ${error(e.tolerance)} of the operators they compute, or one step of integers that were rounded` : `${e.ok ? "within" : "beyond"} ${error(e.tolerance)}`;
  return [
    el("p", { id: "of-compression" }, `Compression moves the result by ${error(e.model_rel)} of the largest value beside ${c.reference}, on ${inputs}.${f ? ` Over ${f.samples} ${f.drawn ? "random inputs" : "inputs of the calibration data"} the error is ${error(f.rms)} by root mean squares${known(f.agrees) ? `, and the first class is the same on ${percent(f.agrees)}` : ""}.` : ""} The bound of that is --max-loss${doc.build.compression?.max_loss ? `: ${doc.build.compression.max_loss}` : ", which was not given"}.`),
    el("p", { id: "of-code" }, `The generated code adds ${error(e.code_rel)} to the compressed network; ${alone}.`),
  ];
}

export function errorsView() {
  const c = doc.check;
  if (!c) return [...layersTable(), el("p", { class: "empty" }, "This build was not checked. edgec build --report holds it against a reference, unless --quick.")];
  const e = doc.errors;
  const stagesOf = c.stages.map((s) => ({ ...s, shown: Math.max(s.max_rel ?? 1, 1e-9) }));
  const alone = c.blocks.filter((b) => known(b.max_rel)).map((b) => ({ ...b, shown: Math.max(b.max_rel, 1e-9) }));
  const bound = e.is_compressed ? [] : [Plot.ruleX([c.tolerance], { stroke: HUES[5], strokeDasharray: "5 4" }), Plot.text([c.tolerance], { x: (v) => v, frameAnchor: "top", dy: -8, text: () => "tolerance", fill: "currentColor" })];
  const axis = { type: "log", label: "error, of the largest value →", grid: true, tickFormat: ".0e", ticks: chartWidth() / 120 };
  const bars = labeled(stagesOf, { name: (s) => s.stage, value: "shown", from: 1e-9, order: stagesOf.map((s) => s.stage), end: (s) => (s.max_rel ? `${error(s.max_rel)}, ${error(s.added_rel)} added` : "none") });
  return [
    ...said(c, e),
    ...layersTable(),
    el("h2", {}, "Stage by stage"),
    chart(Plot.plot({ ...base(), ...bars.options, height: (bars.step + 14) * stagesOf.length + 70, marginTop: 28, marginBottom: 42, x: { ...axis, domain: [1e-9, Math.max((bound.length ? c.tolerance : 0) * 3, d3.max(stagesOf, (s) => s.shown) * 2)] }, y: bars.y,
      marks: [Plot.ruleY(stagesOf, { x1: 1e-9, x2: "shown", y: "stage", stroke: HUES[0], strokeWidth: 10 }), ...bound, ...bars.marks] }), "Error of every stage beside the reference"),
    el("h2", {}, "Every kernel alone"),
    alone.length ? chart(Plot.plot({ ...base(), height: 270, marginLeft: 58, marginBottom: 42, x: { label: "kernel →" }, y: { type: "log", label: "↑ error, of the largest value", grid: true, tickFormat: ".0e", ticks: 6 },
      marks: [Plot.ruleY([c.tolerance], { stroke: HUES[5], strokeDasharray: "5 4" }), Plot.ruleX(alone, { x: "kernel", y1: 1e-9, y2: "shown", stroke: HUES[0], strokeOpacity: 0.4 }), Plot.dot(alone, { x: "kernel", y: "shown", fill: HUES[0], r: 3.5 }),
        Plot.tip(alone, Plot.pointer({ x: "kernel", y: "shown", fill: variable("--raised"), title: (b) => `${titleOf(doc.kernels[b.kernel])}\n${error(b.max_rel)}` }))] }), "Error of every kernel alone") : el("p", { class: "none" }, "Kernels were not run alone."),
    el("h2", {}, "Outputs"),
    table("Outputs", [
      { title: "output", value: (o) => o.name, cell: (o) => o.name }, { title: "largest difference", number: true, value: (o) => o.max_abs, cell: (o) => error(o.max_abs) },
      { title: "of the largest value", number: true, value: (o) => o.max_rel, cell: (o) => error(o.max_rel) }, { title: "verdict", value: (o) => o.ok, cell: (o) => `${o.ok ? "ok" : e.is_compressed ? "compressed" : "beyond the tolerance"}${o.mismatches ? `, ${o.mismatches} of ${o.elements} differ` : ""}` },
    ], c.outputs),
  ];
}
