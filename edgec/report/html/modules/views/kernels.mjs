// All kernels, with their costs.

import { bytesOf, doc, isMeasured, nameOf, timeOf } from "../data.mjs";
import { openKernel } from "../detail.mjs";
import { el } from "../dom.mjs";
import { count, error, known, micro, percent, short, size } from "../figures.mjs";
import { namesOf, table } from "../table.mjs";

export function kernelsView() {
  const most = d3.max(doc.kernels, timeOf) || 1;
  const total = d3.sum(doc.kernels, timeOf) || 1;
  const measured = isMeasured();
  return [
    el("p", { class: "quiet" }, measured ? "Times of each kernel in a run on one thread; their sum leaves out what lies between kernels. A kernel marked slow takes more than 4 times its predicted time, beyond the pace of this machine." : "Times are predictions of the device's model: nothing was measured."),
    table("Kernels", [
      { title: "#", number: true, value: (k) => k.kernel, cell: (k) => el("button", { class: "link", type: "button", onclick: () => openKernel(k.kernel) }, String(k.kernel)) },
      { title: "operators", kind: "words", value: (k) => k.operators.join(" "), cell: (k) => short(k.operators.join(" "), 44) },
      { title: "name", kind: "names", value: nameOf, cell: nameOf },
      { title: "schedule", value: (k) => k.kind, cell: (k) => k.kind },
      { title: measured ? "time" : "predicted", number: true, value: timeOf, cell: (k) => [el("i", { class: "share", style: { width: `${(32 * timeOf(k)) / most}px` } }), micro(timeOf(k))] },
      ...(measured ? [{ title: "of predicted", number: true, value: (k) => k.times_predicted, cell: (k) => (known(k.times_predicted) ? `${k.times_predicted.toFixed(1)}x${k.is_slow ? " slow" : ""}` : "–") }] : []),
      { title: "share", number: true, value: timeOf, cell: (k) => percent(timeOf(k) / total) },
      { title: "FLOPs", number: true, value: (k) => k.flops, cell: (k) => count(k.flops) },
      { title: "GFLOP/s", number: true, value: (k) => k.flops / timeOf(k), cell: (k) => (timeOf(k) > 0 ? (k.flops / timeOf(k) / 1e3).toFixed(1) : "–") },
      { title: "bytes", number: true, value: bytesOf, cell: (k) => size(bytesOf(k)) },
      { title: "weights", number: true, value: (k) => k.weights_bytes, cell: (k) => size(k.weights_bytes) },
      { title: "computes in", value: (k) => k.computes, cell: (k) => k.computes },
      { title: "reads", value: (k) => k.precision, cell: (k) => k.precision },
      ...(doc.kernels.some((k) => k.sparsity) ? [{ title: "zeros", number: true, value: (k) => k.sparsity, cell: (k) => percent(k.sparsity) }] : []),
      ...(doc.kernels.some((k) => known(k.max_rel)) ? [{ title: "error", number: true, value: (k) => k.max_rel, cell: (k) => error(k.max_rel) }] : []),
      { title: "nodes of the model", kind: "names", value: (k) => k.nodes.join(), cell: (k) => el("span", { class: "clamp", title: k.nodes.join("\n") }, namesOf(k.nodes)) },
    ], doc.kernels, (k) => openKernel(k.kernel)),
  ];
}
