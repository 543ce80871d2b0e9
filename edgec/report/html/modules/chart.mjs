// Charts, drawn by Observable Plot as SVG.

import { variable } from "./colors.mjs";
import { byId, el } from "./dom.mjs";

export const chartWidth = () => Math.max(320, Math.min(1280, byId("main").clientWidth - 84));

/** A drawing with its label; those of its marks say nothing more. */
export function chart(plotted, label) {
  const svg = plotted.tagName === "svg" ? plotted : plotted.querySelector("svg:not([class*=swatch]):last-of-type");
  for (const part of plotted.querySelectorAll("g[aria-label]")) part.removeAttribute("aria-label");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  return el("div", { class: "chart" }, plotted);
}

export const base = () => ({ width: chartWidth(), style: { background: "none", color: variable("--ink"), fontSize: "12px" } });
