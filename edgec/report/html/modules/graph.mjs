// The graph of a stage.

import { hue, isDark, kindOf, painter, SCALES, variable } from "./colors.mjs";
import { stages } from "./data.mjs";
import { openNode } from "./detail.mjs";
import { byId, el, say } from "./dom.mjs";
import { drawing, labelOf, styleOf } from "./drawing.mjs";
import { counted, percent } from "./figures.mjs";
import { closeDetail } from "./panel.mjs";

export const picture = { cy: null, stage: null, by: "class", picked: null, then: null };

/** Show a stage; the one that is shown already is drawn anew. */
export function showStage(name, then) {
  const stage = stages.get(name);
  if (!stage) return;
  picture.stage = name;
  picture.picked = null;
  picture.then = then;
  for (const button of byId("stages").children) button.setAttribute("aria-pressed", String(button.dataset.stage === name));
  picture.cy?.destroy();
  drawLegend();
  const container = byId("graph");
  delete container.dataset.done;
  delete container.dataset.picked;
  picture.cy = drawing(container, stage.nodes, stage.edges, picture.by, {}, (cy, { first, done, part }) => {
    byId("graph-status").textContent = done ? "" : `laying out, ${percent(part)}`;
    if (first) firstLook(cy);
    if (done) {
      if (isSmall(cy)) showAll();
      performance.mark("graph-done");
      container.dataset.done = name;
      picture.then?.();
      picture.then = null;
    }
  });
  picture.cy.on("tap", "node", ({ target }) => { pick(target.data("k")); openNode(stage.nodes[target.data("k")]); });
  picture.cy.on("tap", ({ target }) => { if (target === picture.cy) closeDetail(); });
  say(`Stage ${name}: ${counted(stage.nodes.length, "node")}`);
}

/** The top of a large graph at a size that can be read. */
function firstLook(cy) {
  const box = cy.elements().boundingBox();
  const zoom = Math.min(1, Math.max(0.45, (cy.width() - 40) / Math.max(box.w, 1)));
  cy.viewport({ zoom, pan: { x: cy.width() / 2 - ((box.x1 + box.x2) / 2) * zoom, y: 24 - box.y1 * zoom } });
  performance.mark("graph-first");
}

/** Can all of it be seen at once at a size that can be read? */
function isSmall(cy) {
  const { w, h } = cy.elements().boundingBox();
  return Math.min(cy.width() / w, cy.height() / h) > 0.6;
}

export const showAll = () => picture.cy?.fit(undefined, 30);
export const zoomBy = (factor) => { const cy = picture.cy; cy?.zoom({ level: cy.zoom() * factor, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } }); };

/** Mark a node of the stage, with its edges, and bring it into view. */
export function pick(k, center = false) {
  const cy = picture.cy;
  const node = cy?.$id(`n${k}`);
  if (!node?.nonempty()) return;
  picture.picked = k;
  byId("graph").dataset.picked = String(k);
  cy.batch(() => {
    cy.elements(".picked, .near, .found").removeClass("picked near found");
    node.addClass("picked").connectedEdges().addClass("near");
  });
  const view = cy.extent(), { x, y } = node.position();
  if (center || x < view.x1 || x > view.x2 || y < view.y1 || y > view.y2) {
    const zoom = Math.max(cy.zoom(), 0.8);
    const covered = byId("detail").hidden ? 0 : byId("detail").offsetWidth;
    const width = covered < cy.width() * 0.6 ? cy.width() - covered : cy.width();
    cy.viewport({ zoom, pan: { x: width / 2 - x * zoom, y: cy.height() / 2 - y * zoom } });
  }
  const record = stages.get(picture.stage).nodes[k];
  say(`${labelOf(record).replace("\n", ", ")}, ${record.type || ""}`);
}

/** The next node in a direction of the arrow keys: along edges up and down, beside it otherwise. */
export function walk(direction) {
  const { nodes, edges } = stages.get(picture.stage);
  if (picture.picked === null) return pick(0, true);
  const k = picture.picked;
  if (direction === "ArrowDown") return pick((edges.find(([a]) => a === k) || [0, Math.min(k + 1, nodes.length - 1)])[1]);
  if (direction === "ArrowUp") return pick((edges.find(([, b]) => b === k) || [Math.max(k - 1, 0)])[0]);
  pick(Math.min(Math.max(k + (direction === "ArrowRight" ? 1 : -1), 0), nodes.length - 1));
}

export function recolor(by) {
  picture.by = by;
  picture.cy?.style(styleOf(stages.get(picture.stage).nodes, by));
  drawLegend();
}

function drawLegend() {
  const { nodes } = stages.get(picture.stage);
  const legend = byId("legend");
  if (picture.by === "class") {
    const kinds = [...new Set(nodes.map(kindOf))];
    legend.replaceChildren(...kinds.map((kind) => {
      const fill = d3.interpolateRgb(variable("--raised"), hue(kind))(isDark() ? 0.28 : 0.17);
      return el("span", {}, el("i", { class: "swatch", style: { background: fill, borderColor: hue(kind) } }), kind);
    }));
    return;
  }
  const { domain } = painter(nodes, picture.by);
  const { title, text } = SCALES[picture.by];
  if (!domain) return legend.replaceChildren(el("span", {}, `${title}: not known for this build`));
  const steps = d3.range(0, 1.01, 0.1).map((t) => d3.interpolateCividis(t));
  legend.replaceChildren(el("span", {}, title), el("span", {}, text(domain[0]),
    el("i", { class: "ramp", style: { background: `linear-gradient(90deg, ${steps})` } }), text(domain[1])));
}
