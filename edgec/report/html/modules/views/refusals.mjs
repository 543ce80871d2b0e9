// Reasons why neighbors are two kernels, and choices by price.

import { doc } from "../data.mjs";
import { el } from "../dom.mjs";
import { micro } from "../figures.mjs";
import { filtered, table } from "../table.mjs";

export function refusalsView() {
  const parts = [el("h2", {}, "Why neighbors are two kernels")];
  if (!doc.refusals.length) parts.push(el("p", { class: "empty" }, "Nothing was refused: everything is one kernel."));
  else parts.push(...filtered(doc.refusals, (r) => r.constraint || "other", (rows) => table("Refusals", [
    { title: "computes", kind: "names", value: (r) => r.writer, cell: (r) => r.writer },
    { title: "reads it", kind: "names", value: (r) => r.reader, cell: (r) => r.reader },
    { title: "constraint", value: (r) => r.constraint, cell: (r) => r.constraint },
    { title: "because", value: (r) => r.why, cell: (r) => r.why },
    { title: "pair of classes", value: (r) => r.cell.color, cell: (r) => `${r.cell.first} into ${r.cell.second}: ${r.cell.color}` },
  ], rows)));
  parts.push(el("h2", {}, "Choices by price"));
  if (!doc.choices.length) parts.push(el("p", { class: "empty" }, "Nothing could have been either way."));
  else parts.push(table("Choices", [
    { title: "question", value: (c) => c.kind, cell: (c) => c.kind },
    { title: "about", kind: "names", value: (c) => c.about, cell: (c) => c.about },
    { title: "taken", value: (c) => c.taken.name, cell: (c) => `${c.taken.name}: ${micro(c.taken.us)}` },
    { title: "instead of", value: (c) => c.others[0]?.name, cell: (c) => c.others.map((o) => el("div", {}, `${o.name}: ${micro(o.us)}`)) },
    { title: "by", value: (c) => c.source, cell: (c) => c.source },
  ], doc.choices));
  return parts;
}
