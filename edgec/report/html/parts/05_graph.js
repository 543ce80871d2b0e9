// The graph of a stage, drawn by cytoscape on a canvas.

const picture = { cy: null, stage: null, by: "class", picked: null, then: null };

const labelOf = (node) => {
  const head = node.label || node.op;
  const name = node.op === "input" || node.op === "output" ? node.op : (node.names || []).at(-1) || "";
  return `${short(head, 30)}${name ? `\n${tail(name, 30)}` : ""}`;
};

function boxOf(node) {
  const longest = Math.max(...labelOf(node).split("\n").map((line) => line.length));
  return [Math.max(64, longest * 6.3 + 22), 42];
}

function styleOf(nodes, by) {
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

/** Draw nodes and edges into an element; gives the drawing. `ready` is called when all is placed. */
function drawing(container, nodes, edges, by, options, ready) {
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
    if (first || done) ready(cy, first, done);
    first = false;
    if (picture.cy === cy) byId("graph-status").textContent = done ? "" : `laying out, ${percent(part)}`;
  });
  return cy;
}

/** Show a stage; the one that is shown already is drawn anew. */
function showStage(name, then) {
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
  picture.cy = drawing(container, stage.nodes, stage.edges, picture.by, {}, (cy, first, done) => {
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
  say(`Stage ${name}: ${stage.nodes.length} nodes`);
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

const showAll = () => picture.cy?.fit(undefined, 30);
const zoomBy = (factor) => { const cy = picture.cy; cy?.zoom({ level: cy.zoom() * factor, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } }); };

/** Mark a node of the stage, with its edges, and bring it into view. */
function pick(k, center = false) {
  const cy = picture.cy;
  const node = cy?.$id(`n${k}`);
  if (!node?.nonempty()) return;
  picture.picked = k;
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
function walk(direction) {
  const { nodes, edges } = stages.get(picture.stage);
  if (picture.picked === null) return pick(0, true);
  const k = picture.picked;
  if (direction === "ArrowDown") return pick((edges.find(([a]) => a === k) || [0, Math.min(k + 1, nodes.length - 1)])[1]);
  if (direction === "ArrowUp") return pick((edges.find(([, b]) => b === k) || [Math.max(k - 1, 0)])[0]);
  pick(Math.min(Math.max(k + (direction === "ArrowRight" ? 1 : -1), 0), nodes.length - 1));
}

function recolour(by) {
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
