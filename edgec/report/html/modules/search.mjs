// Search over the nodes of the model, operators and kernels.

import { byName, doc, stages, titleOf } from "./data.mjs";
import { openKernel, openName } from "./detail.mjs";
import { byId, el } from "./dom.mjs";
import { pick, picture } from "./graph.mjs";
import { show } from "./tabs.mjs";

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
    if (scored.length > 400) break;
  }
  scored.sort((a, b) => a[0] - b[0]);
  for (const [, name, op] of scored.slice(0, 40)) rows.push({ text: name, note: op, open: () => goTo(name) });
  return rows;
}

/** Show a name in the graph where the stage has it, and what became of it. */
function goTo(name) {
  show("graph");
  openName(name);
  const mark = () => {
    const ids = byName.get(name)?.get(picture.stage) || [];
    if (ids.length) {
      pick(ids.at(-1), true);
      picture.cy.batch(() => ids.forEach((id) => picture.cy.$id(`n${id}`).addClass("found")));
    } else byId("graph-status").textContent = `${name} is not in the stage ${picture.stage}`;
  };
  if (byId("graph").dataset.done === picture.stage) mark();
  else picture.then = mark;
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
