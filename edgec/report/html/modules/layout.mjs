// Layout by dagre in a worker, piece by piece: a network is cut where few edges cross, so that thousands of nodes are
// laid out in linear time and the first of them are there at once.

import { byId } from "./dom.mjs";

const WORKER = `
const LEAST = 40, MOST = 130;
function cuts(count, edges) {
  const crossing = new Int32Array(count + 2);
  for (const [a, b] of edges) { crossing[a + 1]++; crossing[b + 1]--; }
  for (let k = 1; k <= count; k++) crossing[k] += crossing[k - 1];
  const found = [0];
  while (count - found.at(-1) > MOST) {
    const begin = found.at(-1);
    let best = begin + LEAST;
    for (let k = begin + LEAST; k <= begin + MOST; k++) if (crossing[k] <= crossing[best]) best = k;
    found.push(best);
  }
  found.push(count);
  return found;
}
onmessage = ({ data: { job, boxes, edges } }) => {
  const ends = cuts(boxes.length, edges), x = new Float64Array(boxes.length);
  const into = new Map();
  for (const [a, b] of edges) (into.get(b) || into.set(b, []).get(b)).push(a);
  let top = 0;
  for (let p = 0; p + 1 < ends.length; p++) {
    const [begin, end] = [ends[p], ends[p + 1]];
    const g = new dagre.graphlib.Graph();
    g.setGraph({ rankdir: "TB", nodesep: 22, edgesep: 14, ranksep: 34, ranker: "network-simplex" });
    g.setDefaultEdgeLabel(() => ({}));
    for (let k = begin; k < end; k++) g.setNode(String(k), { width: boxes[k][0], height: boxes[k][1] });
    for (const [a, b] of edges) if (a >= begin && b < end) g.setEdge(String(a), String(b));
    dagre.layout(g);
    const middle = (g.graph().width || 0) / 2;
    let shift = 0, seen = 0;
    for (let k = begin; k < end; k++)
      for (const a of into.get(k) || []) if (a < begin) { shift += x[a] - (g.node(String(k)).x - middle); seen++; }
    shift = seen ? shift / seen : 0;
    const places = [];
    for (let k = begin; k < end; k++) {
      const n = g.node(String(k));
      x[k] = n.x - middle + shift;
      places.push([k, x[k], n.y + top]);
    }
    const bends = [];
    for (const e of g.edges()) {
      const points = g.edge(e).points;
      if (points.length > 3) bends.push([+e.v, +e.w, points.slice(1, -1).map((q) => [q.x - middle + shift, q.y + top])]);
    }
    top += (g.graph().height || 0) + 40;
    postMessage({ job, places, bends, done: end === boxes.length, part: end / boxes.length });
  }
};
`;

let layoutWorker = null;
let layoutJob = 0;

/** Lay boxes ([width, height], in topological order) out; `found` gets places and bends of each piece. */
export function layOut(boxes, edges, found) {
  layoutWorker?.terminate();
  const url = URL.createObjectURL(new Blob([byId("dagre-source").textContent, WORKER], { type: "text/javascript" }));
  layoutWorker = new Worker(url);
  const job = ++layoutJob;
  layoutWorker.onmessage = ({ data }) => {
    if (data.job !== layoutJob) return;
    if (data.done) URL.revokeObjectURL(url);
    found(data);
  };
  layoutWorker.postMessage({ job, boxes, edges });
}
