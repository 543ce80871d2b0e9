// Every kernel under the roofs of the device.

import { base, chart, chartWidth } from "../chart.mjs";
import { hue, variable } from "../colors.mjs";
import { bytesOf, doc, isMeasured, timeOf, titleOf } from "../data.mjs";
import { el } from "../dom.mjs";
import { micro } from "../figures.mjs";

export function rooflineView() {
  const roof = doc.roofline;
  const rows = doc.kernels.filter((k) => k.flops > 0 && bytesOf(k) > 0 && timeOf(k) > 0).map((k) => ({ k, x: k.flops / bytesOf(k), y: k.flops / timeOf(k) / 1e3, kind: k.kind, us: timeOf(k) }));
  if (!rows.length) return [el("p", { class: "empty" }, "No kernel does arithmetic on what it moves.")];
  const [low, high] = d3.extent(rows, (r) => r.x);
  const ridges = roof.roofs.map((r) => r.gflops / roof.gbytes);
  const [left, right] = [Math.min(low, ...ridges) / 2, Math.max(high, ...ridges) * 2];
  const lines = roof.roofs.flatMap(({ computes, gflops }) => [left, gflops / roof.gbytes, right].map((x) => ({ x, computes, y: Math.min(x * roof.gbytes, gflops) })));
  const tops = roof.roofs.map((r) => ({ ...r, x: right }));
  const kinds = [...new Set(rows.map((r) => r.kind))];
  const what = isMeasured() ? "measured" : "predicted";
  return [
    el("p", {}, `${doc.device.language !== "c" ? "The GPU" : "One core"}: ${roof.roofs.map((r) => `${r.gflops.toFixed(0)} GFLOP/s in ${r.computes}`).join(", ")}, and ${roof.gbytes.toFixed(0)} GB/s from memory, ${roof.is_measured ? "measured on this device" : "from what is known of its vectors (edgec device probe measures them)"}. A kernel stands under the roof of the type that it multiplies; those above the slope live from caches. The area of a dot is its ${what} time.`),
    chart(Plot.plot({
      ...base(), height: 480, marginLeft: 58, marginBottom: 42, grid: true, x: { type: "log", label: "FLOPs a byte moved →", tickFormat: "~r", ticks: chartWidth() / 110 }, y: { type: "log", label: "↑ GFLOP/s", tickFormat: "~r", ticks: 6 }, r: { range: [2, 18] },
      color: { domain: kinds, range: kinds.map(hue), legend: true }, symbol: { domain: kinds, legend: false },
      marks: [
        Plot.line(lines, { x: "x", y: "y", z: "computes", stroke: "currentColor", strokeWidth: 1.5 }),
        Plot.text(tops, { x: "x", y: "gflops", text: "computes", dy: -7, textAnchor: "end", fill: "currentColor" }),
        Plot.dot(rows, { x: "x", y: "y", r: "us", fill: "kind", fillOpacity: 0.55, stroke: "kind" }),
        Plot.tip(rows, Plot.pointer({ x: "x", y: "y", fill: variable("--raised"), title: (r) => `${titleOf(r.k)}\n${micro(r.us)}, ${r.y.toFixed(1)} GFLOP/s in ${r.k.computes}\n${r.x.toFixed(2)} FLOPs a byte` })),
      ],
    }), "Roofline: arithmetic a second over arithmetic a byte, for every kernel"),
  ];
}
