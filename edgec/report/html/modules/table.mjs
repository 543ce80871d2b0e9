// Tables that sort and filter, and lists of facts.

import { el } from "./dom.mjs";
import { saveTable } from "./download.mjs";
import { known, short } from "./figures.mjs";

export const facts = (rows) => el("dl", { class: "facts" }, rows.filter(([, v]) => known(v) && v !== "").map(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]));
export const namesOf = (names) => (names.length ? short(names.slice(0, 4).join(", ") + (names.length > 4 ? ` and ${names.length - 4} more` : ""), 160) : "–");

const PAGE_ROWS = 300;

/** A table that sorts by its heads. Columns: title, value (to sort by), cell (what is shown), number. */
export function table(caption, columns, rows, open, sorted = null) {
  const state = { by: sorted, down: true, all: false };
  const body = el("tbody");
  const heads = columns.map((c, k) => el("th", { scope: "col", class: c.number ? "number" : null },
    el("button", { type: "button", onclick: () => { state.down = state.by === k ? !state.down : Boolean(c.number); state.by = k; fill(); } }, c.title)));
  const more = el("button", { class: "button", type: "button", onclick: () => { state.all = true; fill(); } });
  function fill() {
    const order = [...rows];
    if (state.by !== null) {
      const { value } = columns[state.by];
      order.sort((a, b) => d3[state.down ? "descending" : "ascending"](value(a) ?? -Infinity, value(b) ?? -Infinity));
    }
    heads.forEach((h, k) => (k === state.by ? h.setAttribute("aria-sort", state.down ? "descending" : "ascending") : h.removeAttribute("aria-sort")));
    const shown = state.all ? order : order.slice(0, PAGE_ROWS);
    body.replaceChildren(...shown.map((row) => el("tr", { class: open ? "opens" : null, onclick: open && ((e) => e.target.closest("button") || open(row)) },
      columns.map((c) => el("td", { class: [c.number && "number", c.kind].filter(Boolean).join(" ") || null, "data-title": c.title }, c.cell(row))))));
    more.hidden = shown.length === order.length;
    more.textContent = `Show all ${order.length}`;
  }
  fill();
  return el("div", {}, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {}, el("caption", { class: "sr" }, caption), el("thead", {}, el("tr", {}, heads)), body)), el("p", { class: "under" }, more, rows.length ? saveTable(caption, columns, rows) : null));
}

/** Buttons that filter a table by one of its values. */
export function filtered(rows, value, draw) {
  const counts = d3.rollups(rows, (v) => v.length, value).sort((a, b) => b[1] - a[1]);
  const place = el("div");
  const show = (name) => {
    for (const b of bar.children) b.setAttribute("aria-pressed", String(b.dataset.name === (name ?? "")));
    place.replaceChildren(draw(name === null ? rows : rows.filter((r) => value(r) === name)));
  };
  const button = (name, n) => el("button", { type: "button", "data-name": name ?? "", onclick: () => show(name) }, `${name ?? "all"} ${n}`);
  const bar = el("div", { class: "filter", role: "group", "aria-label": "Show" }, button(null, rows.length), counts.map(([name, n]) => button(name, n)));
  show(null);
  return [bar, place];
}
