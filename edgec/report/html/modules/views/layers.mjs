// The layers of a compressed network: the numbers of each, its share of the error, and why others stayed floats.

import { doc } from "../data.mjs";
import { openName } from "../detail.mjs";
import { el } from "../dom.mjs";
import { counted, micro, percent } from "../figures.mjs";
import { table } from "../table.mjs";

export function layersTable() {
  const c = doc.build.compression;
  if (!c) return [];
  const inputs = c.drawn ? `${counted(c.samples, "random input")}, which say nothing of real ones: --calibrate DATA takes real ones` : `${counted(c.samples, "input")} of the calibration data`;
  return [
    el("h2", {}, `Layers in ${c.precision}`),
    el("p", { class: "quiet" }, `Ranges and errors are those of ${inputs}; errors are measured ${c.errors === "outputs" ? "at the outputs, each layer alone" : "at each layer"}.${c.max_loss ? ` Asked for: ${c.max_loss}; found ${c.value}.` : ""}`),
    table("Layers", [
      { title: "layer", kind: "names", value: (l) => l.name, cell: (l) => el("button", { class: "link", type: "button", onclick: () => openName(l.name) }, l.name) },
      { title: "operator", value: (l) => l.operator, cell: (l) => l.operator },
      { title: "in", value: (l) => l.precision, cell: (l) => l.precision },
      { title: "share of the error", number: true, value: (l) => l.share, cell: (l) => percent(l.share) },
      { title: "predicted gain", number: true, value: (l) => l.gain_us, cell: (l) => micro(l.gain_us) },
      { title: "corrections, or why not", value: (l) => l.reason || l.corrections.join(", "), cell: (l) => l.reason || l.corrections.join(", ") || "–" },
    ], c.layers),
  ];
}
