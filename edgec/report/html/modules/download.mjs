// Tables and charts as files: CSV and SVG, made in the page.

import { doc } from "./data.mjs";
import { el } from "./dom.mjs";

/** A button that saves `make()` under a name made of the model's and `title`. */
function button(kind, type, title, make) {
  const save = () => {
    const url = URL.createObjectURL(new Blob([make()], { type }));
    const words = [doc.model, title].map((t) => t.toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 40)).join("-");
    el("a", { href: url, download: `${words}.${kind}` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  return el("button", { class: "save", type: "button", "aria-label": `Save ${title} as ${kind.toUpperCase()}`, onclick: save }, kind.toUpperCase());
}

/** A field of CSV (RFC 4180); one that a spreadsheet would take for a formula begins with an apostrophe. */
export function field(value) {
  const given = Array.isArray(value) ? value.join("; ") : String(value ?? "");
  const text = typeof value === "number" || !/^[=+\-@\t\r]/.test(given) ? given : `'${given}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** All rows of a table, by the values that its columns sort by. */
export const csv = (columns, rows) => [columns.map((c) => c.title), ...rows.map((row) => columns.map((c) => c.value(row)))].map((line) => line.map(field).join(",") + "\r\n").join("");

export const saveTable = (title, columns, rows) => button("csv", "text/csv;charset=utf-8", title, () => csv(columns, rows));

/** A chart with the colors that it has now, and room for text beside it. */
export const saveChart = (title, svg) => button("svg", "image/svg+xml", title, () => {
  const copy = svg.cloneNode(true), box = svg.getBBox();
  copy.setAttribute("viewBox", [box.x - 8, box.y - 8, box.width + 16, box.height + 16].join(" "));
  copy.setAttribute("width", box.width + 16);
  copy.setAttribute("height", box.height + 16);
  const { color, fontFamily } = getComputedStyle(svg);
  Object.assign(copy.style, { color, fontFamily, background: getComputedStyle(svg.closest(".chart")).backgroundColor });
  return new XMLSerializer().serializeToString(copy);
});
