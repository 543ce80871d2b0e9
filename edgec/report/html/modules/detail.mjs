// Details of a node, a block, a kernel or a name, in the panel at the side.

import { byName, doc, kernelsByName, stages, titleOf } from "./data.mjs";
import { el } from "./dom.mjs";
import { drawing } from "./drawing.mjs";
import { count, error, known, micro, percent, size } from "./figures.mjs";
import { highlighted } from "./highlight.mjs";
import { decisions } from "./live.mjs";
import { openDetail, whenClosed } from "./panel.mjs";
import { facts } from "./table.mjs";

const nameLinks = (names) => el("span", {}, names.flatMap((name, k) => [k ? ", " : "", el("button", { class: "link", type: "button", onclick: () => openName(name) }, name)]));
const kernelLink = (k) => el("button", { class: "link", type: "button", onclick: () => openKernel(k) }, `kernel ${titleOf(doc.kernels[k])}`);
const ruleRow = (rule) => el("li", {}, el("b", {}, rule.rule), ` ${rule.family}`, el("code", { class: "formula" }, `${rule.before} → ${rule.after}`));

/** A node of a stage: a block and a kernel open whole, an operator tells what it is and where it ends. */
export function openNode(node) {
  if (known(node.block) || (known(node.kernel) && !known(node.class) && node.op !== "place")) return openKernel(node.kernel, node.block);
  const rules = doc.rules.filter((rule) => rule.nodes.some((n) => (node.names || []).includes(n)));
  openDetail(node.label || node.op, [
    facts([
      ["type", node.type], ["from", node.names?.length ? nameLinks(node.names) : null], ["class", node.class],
      ["arithmetic", known(node.flops) ? `${count(node.flops)} FLOPs` : null], ["result", size(node.bytes)],
      ["weights", node.weights ? size(node.weights) : null], ["ends in", known(node.kernel) ? kernelLink(node.kernel) : null],
    ]),
    node.formula && [el("h3", {}, "Formula"), el("code", { class: "formula" }, node.formula)],
    rules.length ? [el("h3", {}, "Rules applied"), el("ul", { class: "why" }, rules.map(ruleRow))] : null,
  ].flat().filter(Boolean), true);
}

/** A node of the model by its name: what it was imported as, the rules, the kernels it ended in. */
export function openName(name) {
  const places = byName.get(name) || new Map();
  const nodesIn = (stage) => (places.get(stage) || []).map((id) => stages.get(stage).nodes[id]);
  const row = (n) => el("li", {}, `${n.label || n.op} → ${n.type || ""}`, n.formula ? el("code", { class: "formula" }, n.formula) : null);
  const list = (title, nodes, none) => [el("h3", {}, title), nodes.length ? el("ul", { class: "why" }, nodes.map(row)) : el("p", { class: "none" }, none)];
  const rules = doc.rules.filter((rule) => rule.nodes.includes(name));
  const last = [...doc.stages].reverse().find((s) => !["fuse", "schedule"].includes(s.name));
  const kernels = kernelsByName.get(name) || [];
  openDetail(name, [
    ...list("Imported as", nodesIn("import"), "nothing: its result is known at build time, or nobody reads it"),
    ...(rules.length ? [el("h3", {}, "Rules applied"), el("ul", { class: "why" }, rules.map(ruleRow))] : []),
    ...(last.name === "import" ? [] : list("After simplifying", nodesIn(last.name), "nothing: other nodes took it over")),
    el("h3", {}, "Kernels"),
    kernels.length ? el("ul", { class: "why" }, kernels.map((k) => el("li", {}, kernelLink(k)))) : el("p", { class: "none" }, "none: it is an index or a place in memory, or nothing is left of it"),
  ], true);
}

let small = null;
whenClosed(() => {
  small?.destroy();
  small = null;
});

/** A kernel: its operators as a graph beside its generated source, and why it holds what it holds. */
export function openKernel(k, block) {
  const kernel = doc.kernels[k];
  if (!kernel) return;
  const drawn = el("div", { class: "small-graph", role: "img", "aria-label": `Operators: ${kernel.operators.join(", ")}` });
  const source = kernel.function ? doc.functions[kernel.function] : null;
  openDetail(`Kernel ${titleOf(kernel)}`, [
    facts([
      ["schedule", kernel.template], ["from", kernel.nodes.length ? nameLinks(kernel.nodes) : null], ["result", kernel.type],
      ["time", known(kernel.measured_us) ? `${micro(kernel.measured_us)} measured, ${micro(kernel.predicted_us)} predicted` : `${micro(kernel.predicted_us)} predicted`],
      ["arithmetic", `${count(kernel.flops)} FLOPs${known(kernel.measured_us) && kernel.measured_us > 0 ? `, ${(kernel.flops / kernel.measured_us / 1e3).toFixed(1)} GFLOP/s` : ""}`],
      ["bytes", `${size(kernel.bytes_read)} read, ${size(kernel.bytes_written)} written`],
      ["computes in", kernel.computes], ["reads", kernel.precision], ["zeros in weights", known(kernel.sparsity) ? percent(kernel.sparsity) : null],
      ["error alone", known(kernel.max_rel) ? error(kernel.max_rel) : null],
    ]),
    decisions(kernel),
    el("div", { class: "sides" },
      el("div", {}, el("h3", {}, "Operators"), drawn),
      el("div", {}, el("h3", {}, kernel.function ? `Source: ${kernel.function}` : "Source"), source ? highlighted(source) : el("p", { class: "none" }, "This language has no text of one kernel."))),
    el("h3", {}, "Why"),
    kernel.why.length ? el("ul", { class: "why" }, kernel.why.map((line) => el("li", {}, line))) : el("p", { class: "none" }, "It stands alone: nothing was decided about it."),
    el("h3", {}, kernel.formulas.length > 1 ? "Formulas" : "Formula"),
    ...kernel.formulas.map((f) => el("code", { class: "formula" }, f)),
  ].filter(Boolean));
  drawOperators(drawn, kernel, block);
}

/** The operators of the blocks of a kernel, with what they read. */
function drawOperators(container, kernel, block) {
  const fuse = stages.get("fuse");
  const blocks = known(block) && kernel.blocks.length > 1 ? [block] : kernel.blocks;
  const inside = new Set(fuse.nodes.filter((n) => blocks.includes(n.block)).flatMap((n) => n.inside));
  if (!inside.size) return container.replaceChildren(el("p", { class: "empty" }, "No operators: it fills the border of a buffer."));
  const edges = doc.operators.edges.filter(([, b]) => inside.has(b));
  const ids = [...new Set([...inside, ...edges.map(([a]) => a)])].sort((a, b) => a - b);
  const number = new Map(ids.map((id, k) => [id, k]));
  const nodes = ids.map((id) => {
    const n = doc.operators.nodes[id];
    return inside.has(id) ? n : { ...n, op: "input", class: undefined, label: n.names?.at(-1) || n.label || n.op };
  });
  small?.destroy();
  small = drawing(container, nodes, edges.map(([a, b]) => [number.get(a), number.get(b)]), "class", { maxZoom: 1.2 }, (cy, { done }) => done && cy.fit(undefined, 14));
}
