// The rules that were applied, step by step.

import { doc } from "../data.mjs";
import { el } from "../dom.mjs";
import { count, counted } from "../figures.mjs";
import { filtered, namesOf, table } from "../table.mjs";

/** Steps of folding constants as one, with the sum of what they save: each says no more than that it was one. */
function folded(rules) {
  const steps = rules.filter((rule) => rule.rule === "fold_constants");
  if (steps.length < 2) return rules;
  const gain = {};
  for (const step of steps) for (const [k, v] of Object.entries(step.gain)) gain[k] = (gain[k] || 0) + v;
  const one = { ...steps[0], nodes: [...new Set(steps.flatMap((s) => s.nodes))], before: `${steps.length} times: what depends on constants alone`, after: "constants", gain };
  return rules.filter((rule) => !steps.includes(rule) || rule === steps[0]).map((rule) => (rule === steps[0] ? one : rule));
}

export function rulesView() {
  if (!doc.rules.length) return [el("p", { class: "empty" }, "No rule applied: the model was as simple as the rules know.")];
  return [
    el("p", { class: "quiet" }, `${counted(doc.rules.length, "step")}, in the order they were taken. Every rule is proved on generated instances; each step made the whole graph cheaper.`),
    ...filtered(folded(doc.rules), (rule) => rule.rule, (rows) => table("Rules applied", [
      { title: "rule", value: (l) => l.rule, cell: (l) => [l.rule, el("div", { class: "quiet" }, `${l.family}, ${l.numeric}`)] },
      { title: "nodes of the model", kind: "names", value: (l) => l.nodes.join(), cell: (l) => namesOf(l.nodes) },
      { title: "before", kind: "code", value: (l) => l.before, cell: (l) => l.before },
      { title: "after", kind: "code", value: (l) => l.after, cell: (l) => l.after },
      { title: "saves", value: (l) => l.gain.flops || 0, cell: (l) => Object.entries(l.gain).filter(([k]) => ["flops", "bytes", "operators"].includes(k)).map(([k, v]) => el("div", { style: { whiteSpace: "nowrap" } }, `${count(v)} ${k}`)) },
    ], rows)),
  ];
}
