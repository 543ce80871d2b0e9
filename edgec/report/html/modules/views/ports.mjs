// Inputs and outputs of the network, on the overview.

import { doc } from "../data.mjs";
import { known, size } from "../figures.mjs";
import { table } from "../table.mjs";

export const portsTable = () => table("Inputs and outputs", [
  { title: "name", kind: "names", value: (p) => p.name, cell: (p) => p.name },
  { title: "is", value: (p) => p.kind, cell: (p) => p.kind },
  { title: "type", value: (p) => `${p.dtype}[${p.shape.join(", ")}]`, cell: (p) => `${p.dtype}[${p.shape.join(", ")}]` },
  { title: "bytes", number: true, value: (p) => p.bytes, cell: (p) => size(p.bytes) },
  { title: "scale", number: true, value: (p) => p.scale, cell: (p) => (known(p.scale) ? p.scale.toPrecision(4) : "–") },
  { title: "zero point", number: true, value: (p) => p.zero_point, cell: (p) => (known(p.zero_point) ? String(p.zero_point) : "–") },
], doc.ports);
