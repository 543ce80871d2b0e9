// Tabs: parts of the report are drawn when they are first looked at.

import { doc, stages } from "./data.mjs";
import { byId } from "./dom.mjs";
import { picture, showStage } from "./graph.mjs";
import { showNetworkDecisions } from "./live.mjs";
import { buildView } from "./views/build.mjs";
import { errorsView } from "./views/errors.mjs";
import { kernelsView } from "./views/kernels.mjs";
import { portsTable } from "./views/ports.mjs";
import { rulesView } from "./views/rules.mjs";
import { memoryView } from "./views/memory.mjs";
import { refusalsView } from "./views/refusals.mjs";
import { rooflineView } from "./views/roofline.mjs";
import { timeChart } from "./views/times.mjs";

const VIEWS = { kernels: kernelsView, memory: memoryView, roofline: rooflineView, errors: errorsView, rules: rulesView, refusals: refusalsView, build: buildView };
export const drawn = new Set();

/** Show a part of the report. The address tells which: Back goes to the one before, unless this one takes its place. */
export function show(name, replaces = false) {
  for (const tab of document.querySelectorAll(".tabs button")) {
    const isIt = tab.dataset.view === name;
    tab.setAttribute("aria-selected", String(isIt));
    tab.tabIndex = isIt ? 0 : -1;
    byId(`view-${tab.dataset.view}`).hidden = !isIt;
    if (isIt) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  if (!drawn.has(name)) {
    drawn.add(name);
    if (name === "overview") { byId("ports").replaceChildren(portsTable()); byId("time-chart").replaceChildren(timeChart()); showNetworkDecisions(); }
    else if (name === "graph") showStage(picture.stage || (stages.has("fuse") ? "fuse" : doc.stages.at(-1).name));
    else byId(`view-${name}`).replaceChildren(...VIEWS[name]());
  }
  if (location.hash !== `#${name}`) history[replaces ? "replaceState" : "pushState"](null, "", `#${name}`);
}

/** The part that the address tells. */
export const told = () => (document.querySelector(`.tabs [data-view="${CSS.escape(location.hash.slice(1))}"]`) ? location.hash.slice(1) : "overview");

const current = () => document.querySelector('.tabs button[aria-selected="true"]').dataset.view;

/** Draw everything anew: the document or the colors changed. */
export function refresh() {
  const here = current();
  drawn.clear();
  show(here, true);
}
