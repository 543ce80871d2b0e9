// Colors that color-blind people tell apart (Okabe and Ito), and ramps of even lightness (cividis).

import { bytesOf, doc, timeOf } from "./data.mjs";
import { count, error, known, micro, size } from "./figures.mjs";

export const HUES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c7ae6", "#b8a51f", "#7f8c8d"];
const KINDS = {
  contract: 0, winograd: 5, window: 1, row: 3, map: 2, attention: 6, procedure: 7, chain: 4, border: 8, reduce: 3, registers: 5,
  "one-to-one": 2, reorganize: 4, shuffle: 6, "one-to-many": 1, "many-to-many": 0, place: 8, input: 8, output: 8,
};

export const isDark = () => document.documentElement.dataset.theme === "dark";
export const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const hue = (kind) => HUES[KINDS[kind] ?? 8];

/** The class of a node as the legend has it: its schedule, or how it maps elements. */
export const kindOf = (node) => (node.op === "input" || node.op === "output" || node.op === "place" ? node.op : known(node.class) ? node.class : node.op);

/** What to color nodes by: a value for each, and its name. */
export const SCALES = {
  time: { title: "time of the kernel", value: (n) => (known(n.kernel) ? timeOf(doc.kernels[n.kernel]) : null), text: micro },
  bytes: { title: "bytes", value: (n) => (known(n.kernel) && !known(n.class) ? bytesOf(doc.kernels[n.kernel]) : n.bytes), text: size },
  flops: { title: "FLOPs", value: (n) => (known(n.flops) ? n.flops : known(n.kernel) ? doc.kernels[n.kernel].flops : null), text: count },
  error: { title: "error of the kernel alone", value: (n) => (known(n.kernel) ? doc.kernels[n.kernel].max_rel : null), text: error },
};

/** Functions from a node to its fill, its border and its text. */
export function painter(nodes, by) {
  if (by === "class") {
    const paper = d3.color(variable("--raised"));
    const fill = (n) => d3.interpolateRgb(paper, hue(kindOf(n)))(isDark() ? 0.28 : 0.17);
    return { fill, border: (n) => hue(kindOf(n)), ink: () => variable("--ink"), domain: null };
  }
  const { value } = SCALES[by];
  const all = nodes.map(value).filter((v) => known(v) && v > 0);
  const [low, high] = all.length ? d3.extent(all) : [1, 1];
  const scale = d3.scaleSequentialLog([low, Math.max(high, low * 1.0001)], d3.interpolateCividis);
  const fill = (n) => { const v = value(n); return known(v) && v > 0 ? scale(v) : variable("--sunken"); };
  const ink = (n) => (known(value(n)) && value(n) > 0 ? (d3.lab(fill(n)).l > 55 ? "#111" : "#fff") : variable("--ink"));
  return { fill, border: (n) => (known(value(n)) && value(n) > 0 ? fill(n) : variable("--line")), ink, domain: all.length ? [low, high] : null };
}
