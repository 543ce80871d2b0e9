// Nodes and edges, drawn by cytoscape on a canvas.

import { painter, variable } from "./colors.mjs";
import { nodeTail, short } from "./figures.mjs";
import { layOut } from "./layout.mjs";

export const labelOf = (node) => {
  const head = node.label || node.op;
  const name = node.op === "input" || node.op === "output" ? node.op : (node.names || []).at(-1) || "";
  return `${short(head, 30)}${name ? `\n${nodeTail(name, 30)}` : ""}`;
};

function boxOf(node) {
  const longest = Math.max(...labelOf(node).split("\n").map((line) => line.length));
  return [Math.max(64, longest * 6.3 + 22), 42];
}

export function styleOf(nodes, by) {
  const paint = painter(nodes, by);
  const node = (target) => nodes[target.data("k")];
  return [
    { selector: "node", style: {
      shape: (t) => (["input", "output"].includes(node(t).op) ? "ellipse" : "round-rectangle"),
      width: "data(w)", height: "data(h)", label: "data(label)", "text-wrap": "wrap", "text-valign": "center",
      "font-family": "system-ui, sans-serif", "font-size": 11, "line-height": 1.25, "min-zoomed-font-size": 6,
      "background-color": (t) => paint.fill(node(t)), "border-color": (t) => paint.border(node(t)), "border-width": 1.5,
      color: (t) => paint.ink(node(t)),
    } },
    { selector: "edge", style: {
      width: 1.2, "line-color": variable("--soft"), "line-opacity": 0.55, "target-arrow-color": variable("--soft"),
      "target-arrow-shape": "triangle", "arrow-scale": 0.7, "curve-style": "bezier",
    } },
    { selector: "edge[weights]", style: { "curve-style": "round-segments", "segment-weights": "data(weights)", "segment-distances": "data(distances)", "segment-radii": 12 } },
    { selector: "node.picked", style: { "border-width": 4, "border-color": variable("--mark") } },
    { selector: "node.found", style: { "outline-width": 5, "outline-color": variable("--mark"), "outline-opacity": 0.9 } },
    { selector: "edge.near", style: { "line-color": variable("--mark"), "target-arrow-color": variable("--mark"), "line-opacity": 1, width: 2 } },
  ];
}

/** Bends of an edge as cytoscape has them: along the straight line, and across it. */
function bent(from, to, points) {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length = Math.hypot(dx, dy) || 1;
  const along = points.map(([x, y]) => ((x - from.x) * dx + (y - from.y) * dy) / (length * length));
  const across = points.map(([x, y]) => ((x - from.x) * -dy + (y - from.y) * dx) / length);
  return { weights: along.map((v) => v.toFixed(4)).join(" "), distances: across.map((v) => v.toFixed(1)).join(" ") };
}

/**
 * Draw nodes and edges into an element; gives the drawing. `placed` is called after each piece of the layout, with
 * { first, done, part }: is it the first piece, is it the last, and the share of all nodes that have a place.
 */
export function drawing(container, nodes, edges, by, options, placed) {
  const many = nodes.length > 1200;
  const cy = cytoscape({
    container, style: styleOf(nodes, by), minZoom: 0.01, maxZoom: 3, autoungrabify: true, boxSelectionEnabled: false,
    hideEdgesOnViewport: many, pixelRatio: many ? 1 : "auto", ...options,
  });
  const boxes = nodes.map(boxOf);
  const incoming = new Map();
  edges.forEach(([a, b], e) => (incoming.get(b) || incoming.set(b, []).get(b)).push([a, e]));
  let first = true;
  layOut(boxes, edges, ({ places, bends, done, part }) => {
    if (cy.destroyed()) return;
    const routes = new Map(bends.map(([a, b, points]) => [`${a} ${b}`, points]));
    const at = new Map();
    cy.batch(() => {
      cy.add(places.map(([k, x, y]) => {
        at.set(k, { x, y });
        return { group: "nodes", data: { id: `n${k}`, k, w: boxes[k][0], h: boxes[k][1], label: labelOf(nodes[k]) }, position: { x, y } };
      }));
      cy.add(places.flatMap(([k]) => (incoming.get(k) || []).map(([a, e]) => {
        const points = routes.get(`${a} ${k}`);
        return { group: "edges", data: { id: `e${e}`, source: `n${a}`, target: `n${k}`, ...(points ? bent(at.get(a), at.get(k), points) : {}) } };
      })));
    });
    placed(cy, { first, done, part });
    first = false;
  });
  return cy;
}
