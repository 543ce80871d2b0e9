// Search over the nodes of the model, operators and kernels.

import { byName, doc, stages, titleOf } from "./data.mjs";
import { openKernel, openName } from "./detail.mjs";
import { byId, el } from "./dom.mjs";
import { pick, picture, showStage } from "./graph.mjs";
import { drawn, show } from "./tabs.mjs";

const searching = { rows: [], at: -1 };

function matches(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const all = (where) => words.every((w) => where.includes(w));
  const rows = [];
  if (/^\d+$/.test(text.trim()) && doc.kernels[+text]) rows.push({ text: `kernel ${titleOf(doc.kernels[+text])}`, note: "kernel", open: () => openKernel(+text) });
  const scored = [];
  for (const [name, places] of byName) {
    const first = [...places][0];
    const node = stages.get(first[0]).nodes[first[1][0]];
    if (all(`${name} ${node.op}`.toLowerCase())) scored.push([name.toLowerCase() === text.toLowerCase() ? -1 : name.length, name, node.op]);
  }
  scored.sort((a, b) => a[0] - b[0]);
  for (const [, name, op] of scored.slice(0, 40)) rows.push({ text: name, note: op, open: () => goTo(name) });
  return rows;
}

/** Of the nodes of a stage that come from a name, the one that is it: its operator, not what was put around it. */
function nodeOf(name, stage) {
  const places = byName.get(name), ids = places.get(stage);
  const [first, [id]] = [...places][0];
  const { op } = stages.get(first).nodes[id], { nodes } = stages.get(stage);
  const is = (n) => n.op === op || (n.label || "").split(" ").includes(op);
  return ids.find((k) => nodes[k].names.at(-1) === name && is(nodes[k])) ?? ids.find((k) => is(nodes[k])) ?? ids.at(-1);
}

/** Show a name in the graph, in another stage where this one does not have it, and what became of it. */
function goTo(name) {
  const places = byName.get(name);
  const wanted = picture.stage || (stages.has("fuse") ? "fuse" : doc.stages.at(-1).name);
  const stage = places.has(wanted) ? wanted : [...places.keys()].at(-1);
  const isNew = !drawn.has("graph");
  if (isNew) picture.stage = stage;
  const mark = () => {
    pick(nodeOf(name, stage), true);
    picture.cy.batch(() => places.get(stage).forEach((id) => picture.cy.$id(`n${id}`).addClass("found")));
    byId("graph-status").textContent = stage === wanted ? "" : `${name} is not in the stage ${wanted}: this is ${stage}`;
  };
  show("graph");
  openName(name);
  if (byId("graph").dataset.done === stage) mark();
  else if (isNew || picture.stage === stage) picture.then = mark;
  else showStage(stage, mark);
}

function fillFound() {
  const list = byId("found"), input = byId("search");
  list.replaceChildren(...searching.rows.map((r, k) => el("li", { role: "option", id: `found-${k}`, "aria-selected": String(k === searching.at), onmousedown: (e) => { e.preventDefault(); choose(k); } }, el("span", {}, r.text), el("span", { class: "quiet" }, r.note))));
  if (input.value.trim() && !searching.rows.length) list.replaceChildren(el("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, el("span", { class: "none" }, "no such node")));
  list.hidden = !input.value.trim();
  input.setAttribute("aria-expanded", String(!list.hidden));
  if (searching.at >= 0) input.setAttribute("aria-activedescendant", `found-${searching.at}`);
  else input.removeAttribute("aria-activedescendant");
  list.children[searching.at]?.scrollIntoView?.({ block: "nearest" });
}

function choose(k) {
  const row = searching.rows[k];
  if (!row) return;
  byId("found").hidden = true;
  byId("search").setAttribute("aria-expanded", "false");
  byId("search").blur();
  row.open();
}

byId("search").addEventListener("input", (e) => { searching.rows = matches(e.target.value); searching.at = searching.rows.length ? 0 : -1; fillFound(); });
byId("search").addEventListener("blur", () => { byId("found").hidden = true; byId("search").setAttribute("aria-expanded", "false"); });
byId("search").addEventListener("keydown", (e) => {
  const move = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (move && searching.rows.length) { searching.at = (searching.at + move + searching.rows.length) % searching.rows.length; fillFound(); e.preventDefault(); }
  if (e.key === "Enter") choose(Math.max(searching.at, 0));
  if (e.key === "Escape") { e.target.value = ""; searching.rows = []; fillFound(); e.target.blur(); }
});
