// The entry: theme, and what buttons and keys do.

import { isDark } from "./colors.mjs";
import { doc, stages } from "./data.mjs";
import { openNode } from "./detail.mjs";
import { byId } from "./dom.mjs";
import { picture, recolor, showAll, showStage, walk, zoomBy } from "./graph.mjs";
import { whenRebuilt } from "./live.mjs";
import { closeDetail } from "./panel.mjs";
import "./search.mjs";
import { drawn, refresh, show, told } from "./tabs.mjs";

function theme(name) {
  document.documentElement.dataset.theme = name;
  try { localStorage.setItem("edgec-theme", name); } catch { /* a file may have no storage */ }
  if (drawn.size) refresh();
}

const step = (by) => {
  const names = doc.stages.map((s) => s.name);
  show("graph");
  showStage(names[Math.min(Math.max(names.indexOf(picture.stage) + by, 0), names.length - 1)]);
};

whenRebuilt(refresh);

const tabs = [...document.querySelectorAll(".tabs button")];
for (const tab of tabs) {
  tab.addEventListener("click", () => show(tab.dataset.view));
  tab.addEventListener("keydown", (e) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (by) { const next = tabs[(tabs.indexOf(tab) + by + tabs.length) % tabs.length]; next.focus(); show(next.dataset.view); }
  });
}
for (const button of document.querySelectorAll(".stage, #stages button"))
  button.addEventListener("click", () => { const known = drawn.has("graph"); picture.stage = button.dataset.stage; show("graph"); if (known) showStage(button.dataset.stage); });
byId("color").addEventListener("change", (e) => recolor(e.target.value));
byId("zoom-in").addEventListener("click", () => zoomBy(1.3));
byId("zoom-out").addEventListener("click", () => zoomBy(1 / 1.3));
byId("zoom-all").addEventListener("click", showAll);
byId("detail-close").addEventListener("click", closeDetail);
byId("theme").addEventListener("click", () => theme(isDark() ? "light" : "dark"));
byId("help").addEventListener("click", () => byId("keys").showModal());
byId("graph").addEventListener("keydown", (e) => {
  if (e.key.startsWith("Arrow")) { walk(e.key); e.preventDefault(); }
  if (e.key === "Enter" && picture.picked !== null) openNode(stages.get(picture.stage).nodes[picture.picked]);
});

document.addEventListener("keydown", (e) => {
  if (e.key === "Escape") return closeDetail();
  if (e.target.closest("input, select, textarea, dialog[open]") || e.ctrlKey || e.metaKey || e.altKey) return;
  const keys = {
    "/": () => { byId("search").focus(); e.preventDefault(); }, "?": () => byId("keys").showModal(), t: () => theme(isDark() ? "light" : "dark"),
    "[": () => step(-1), "]": () => step(1), "+": () => zoomBy(1.3), "=": () => zoomBy(1.3), "-": () => zoomBy(1 / 1.3), 0: showAll,
  };
  if (/^[1-9]$/.test(e.key) && tabs[+e.key - 1]) show(tabs[+e.key - 1].dataset.view);
  else keys[e.key]?.();
});

let kept = null;
try { kept = localStorage.getItem("edgec-theme"); } catch { /* a file may have no storage */ }
theme(kept || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
show(told(), true);
addEventListener("popstate", () => { closeDetail(); show(told(), true); });
document.documentElement.dataset.ready = "true";
performance.mark("report-ready");
