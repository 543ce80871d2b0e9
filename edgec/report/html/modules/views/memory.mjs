// The arena: each buffer over the kernels of a run, and the bytes in use at each kernel.

import { base, chart } from "../chart.mjs";
import { HUES, variable } from "../colors.mjs";
import { doc } from "../data.mjs";
import { el } from "../dom.mjs";
import { counted, size } from "../figures.mjs";
import { namesOf, table } from "../table.mjs";

export function memoryView() {
  const m = doc.memory;
  if (!m.buffers.length) return [el("p", { class: "empty" }, "Nothing is kept between kernels: there is no arena.")];
  const kb = 1024;
  const owner = (b) => (b.is_scratch ? "scratch" : b.over ? "written in place" : "own place");
  const rows = m.buffers.map((b) => ({ ...b, x1: b.first, x2: b.last + 1, y1: b.offset / kb, y2: (b.offset + b.bytes) / kb, owner: owner(b) }));
  const live = m.live.map((bytes, k) => ({ k, kb: bytes / kb }));
  const title = (b) => `${b.name}: ${size(b.bytes)} at ${b.offset}\nkernels ${b.first} to ${b.last}${b.over ? `\nover ${b.over}, in place` : ""}\n${b.nodes.join(", ")}`;
  const colors = { domain: ["own place", "written in place", "scratch"], range: [HUES[0], HUES[1], HUES[8]], legend: true };
  const map = Plot.plot({
    ...base(), height: 440, marginLeft: 62,
    x: { label: "kernel →", domain: [0, m.live.length] }, y: { label: "↑ KiB of the arena", grid: true }, color: colors,
    marks: [
      Plot.rect(rows, { x1: "x1", x2: "x2", y1: "y1", y2: "y2", fill: "owner", fillOpacity: 0.55, stroke: "owner", strokeWidth: 1, inset: 0.5 }),
      Plot.ruleY([m.lower_bound_bytes / kb], { stroke: HUES[5], strokeWidth: 1.5, strokeDasharray: "5 4" }),
      Plot.text([m.lower_bound_bytes / kb], { y: (v) => v, frameAnchor: "right", text: () => `lower bound ${size(m.lower_bound_bytes)}`, dy: -8, textAnchor: "end", fill: "currentColor" }),
      Plot.tip(rows, Plot.pointer({ x: (b) => (b.x1 + b.x2) / 2, y: (b) => (b.y1 + b.y2) / 2, title, fill: variable("--raised") })),
    ],
  });
  const alive = Plot.plot({
    ...base(), height: 190, marginLeft: 62, x: { label: "kernel →", domain: [0, m.live.length] }, y: { label: "↑ KiB alive", grid: true },
    marks: [
      Plot.rectY(live, { x1: "k", x2: (d) => d.k + 1, y: "kb", fill: HUES[2], fillOpacity: 0.7 }),
      Plot.ruleY([m.arena_bytes / kb], { stroke: "currentColor", strokeDasharray: "2 3" }), Plot.ruleY([0]),
    ],
  });
  return [
    el("p", {}, `The arena is ${size(m.arena_bytes)}; ${size(m.lower_bound_bytes)} are alive at once at the most. ${rows.filter((b) => b.over).length} of ${counted(rows.length, "buffer")} written in place.`),
    chart(map, "Buffers of the arena over the kernels of a run"), el("h2", {}, "What is alive at each kernel"), chart(alive, "Bytes alive at each kernel"),
    el("h2", {}, "Buffers"),
    table("Buffers", [
      { title: "buffer", value: (b) => b.name, cell: (b) => b.name }, { title: "offset", number: true, value: (b) => b.offset, cell: (b) => String(b.offset) },
      { title: "bytes", number: true, value: (b) => b.bytes, cell: (b) => size(b.bytes) }, { title: "kernels", number: true, value: (b) => b.first, cell: (b) => `${b.first} to ${b.last}` },
      { title: "in place of", value: (b) => b.over, cell: (b) => b.over || "–" }, { title: "written by", kind: "names", value: (b) => b.nodes.join(), cell: (b) => namesOf(b.nodes) },
    ], m.buffers),
  ];
}
