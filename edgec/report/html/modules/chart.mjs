// Charts, drawn by Observable Plot as SVG.

import { variable } from "./colors.mjs";
import { byId, el } from "./dom.mjs";
import { saveChart } from "./download.mjs";

export const isNarrow = () => byId("main").clientWidth < 600;
export const chartWidth = () => Math.max(240, Math.min(1280, byId("main").clientWidth - (isNarrow() ? 66 : 84)));

/** A drawing with its label; those of its marks say nothing more. */
export function chart(plotted, label) {
  const svg = plotted.tagName === "svg" ? plotted : plotted.querySelector(":scope > svg");
  for (const part of plotted.querySelectorAll("g[aria-label]")) part.removeAttribute("aria-label");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  return el("div", {}, el("div", { class: "chart" }, plotted), el("p", { class: "under" }, saveChart(label, svg)));
}

/**
 * Options and marks of bars with labels: at the side, or over each bar where the page is narrow. `name` is what a row
 * is called, `end` the text behind its bar, which begins at `from` and is as long as `value` says.
 */
export function labeled(rows, { name, end, value, from = 0, order }) {
  const longest = (text) => Math.max(...rows.map((row) => text(row).length)) * 6.7 + 16;
  const text = { y: name, textAnchor: "start", fill: "currentColor" };
  if (!isNarrow()) return { options: { marginLeft: longest(name), marginRight: longest(end) }, step: 26, marks: [Plot.text(rows, { ...text, x: value, dx: 6, text: end })], y: { label: null, domain: order }, inset: 0 };
  return { options: { marginLeft: 8, marginRight: 12 }, step: 44, marks: [Plot.text(rows, { ...text, x: from, dy: -12, text: (row) => `${name(row)}  ${end(row)}` })], y: { label: null, axis: null, domain: order }, inset: 20 };
}

export const base = () => ({ width: chartWidth(), style: { background: "none", color: variable("--ink"), fontSize: "12px" } });
