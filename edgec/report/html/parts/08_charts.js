// Charts, drawn by Observable Plot as SVG.

const chartWidth = () => Math.max(320, Math.min(1280, byId("main").clientWidth - 84));

/** A drawing with its label; those of its marks say nothing more. */
function chart(plotted, label) {
  const svg = plotted.tagName === "svg" ? plotted : plotted.querySelector("svg:not([class*=swatch]):last-of-type");
  for (const part of plotted.querySelectorAll("g[aria-label]")) part.removeAttribute("aria-label");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  return el("div", { class: "chart" }, plotted);
}
const base = () => ({ width: chartWidth(), style: { background: "none", color: variable("--ink"), fontSize: "12px" } });

function timeChart() {
  const rows = [...doc.kernels].filter((k) => timeOf(k) > 0).sort((a, b) => timeOf(b) - timeOf(a)).slice(0, 12);
  if (!rows.length) return el("p", { class: "none" }, "No kernel takes any time.");
  const total = d3.sum(doc.kernels, timeOf);
  return chart(Plot.plot({
    ...base(), marginLeft: Math.min(300, chartWidth() * 0.42), marginRight: 90, height: 26 * rows.length + 40,
    x: { label: isMeasured() ? "µs measured" : "µs predicted", grid: true }, y: { label: null },
    marks: [
      Plot.barX(rows, { x: timeOf, y: titleOf, fill: (k) => hue(k.kind), sort: { y: "-x" }, rx: 2 }),
      Plot.text(rows, { x: timeOf, y: titleOf, text: (k) => `${micro(timeOf(k))}  ${percent(timeOf(k) / total)}`, dx: 6, textAnchor: "start", fill: "currentColor" }),
    ],
  }), `The ${rows.length} kernels that take the most time`);
}

function memoryView() {
  const m = doc.memory;
  if (!m.buffers.length) return [el("p", { class: "empty" }, "Nothing is kept between kernels: there is no arena.")];
  const kb = 1024;
  const owner = (b) => (b.is_scratch ? "scratch" : b.over ? "written in place" : "own place");
  const rows = m.buffers.map((b) => ({ ...b, x1: b.first, x2: b.last + 1, y1: b.offset / kb, y2: (b.offset + b.bytes) / kb, owner: owner(b) }));
  const live = m.live.map((bytes, k) => ({ k, kb: bytes / kb }));
  const title = (b) => `${b.name}: ${size(b.bytes)} at ${b.offset}\nkernels ${b.first} to ${b.last}${b.over ? `\nover ${b.over}, in place` : ""}\n${b.nodes.join(", ")}`;
  const colours = { domain: ["own place", "written in place", "scratch"], range: [HUES[0], HUES[1], HUES[8]], legend: true };
  const map = Plot.plot({
    ...base(), height: 440, marginLeft: 62,
    x: { label: "kernel →", domain: [0, m.live.length] }, y: { label: "↑ KiB of the arena", grid: true }, color: colours,
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
    el("p", {}, `The arena is ${size(m.arena_bytes)}; ${size(m.lower_bound_bytes)} are alive at once at the most. ${rows.filter((b) => b.over).length} of ${rows.length} buffers are written in place.`),
    chart(map, "Buffers of the arena over the kernels of a run"), el("h2", {}, "What is alive at each kernel"), chart(alive, "Bytes alive at each kernel"),
    el("h2", {}, "Buffers"),
    table("Buffers", [
      { title: "buffer", value: (b) => b.name, cell: (b) => b.name }, { title: "offset", number: true, value: (b) => b.offset, cell: (b) => String(b.offset) },
      { title: "bytes", number: true, value: (b) => b.bytes, cell: (b) => size(b.bytes) }, { title: "kernels", number: true, value: (b) => b.first, cell: (b) => `${b.first} to ${b.last}` },
      { title: "in place of", value: (b) => b.over, cell: (b) => b.over || "–" }, { title: "written by", kind: "names", value: (b) => b.nodes.join(), cell: (b) => namesOf(b.nodes) },
    ], m.buffers),
  ];
}

function rooflineView() {
  const roof = doc.roofline;
  const rows = doc.kernels.filter((k) => k.flops > 0 && bytesOf(k) > 0 && timeOf(k) > 0).map((k) => ({ k, x: k.flops / bytesOf(k), y: k.flops / timeOf(k) / 1e3, kind: k.kind, us: timeOf(k) }));
  if (!rows.length) return [el("p", { class: "empty" }, "No kernel does arithmetic on what it moves.")];
  const ridge = roof.gflops / roof.gbytes;
  const [low, high] = d3.extent(rows, (r) => r.x);
  const line = [Math.min(low, ridge) / 2, ridge, Math.max(high, ridge) * 2].map((x) => ({ x, y: Math.min(x * roof.gbytes, roof.gflops) }));
  const kinds = [...new Set(rows.map((r) => r.kind))];
  const what = isMeasured() ? "measured" : "predicted";
  return [
    el("p", {}, `One core: ${roof.gflops.toFixed(0)} GFLOP/s and ${roof.gbytes.toFixed(0)} GB/s from memory, ${roof.is_measured ? "measured on this device" : "from what is known of its vectors (edgec device probe measures them)"}. Kernels above the slope live from caches. The area of a dot is its ${what} time.`),
    chart(Plot.plot({
      ...base(), height: 480, marginLeft: 58, grid: true, x: { type: "log", label: "FLOPs a byte moved →", tickFormat: "~r", ticks: chartWidth() / 110 }, y: { type: "log", label: "↑ GFLOP/s", tickFormat: "~r", ticks: 6 }, r: { range: [2, 18] },
      color: { domain: kinds, range: kinds.map(hue), legend: true }, symbol: { domain: kinds, legend: false },
      marks: [
        Plot.line(line, { x: "x", y: "y", stroke: "currentColor", strokeWidth: 1.5 }),
        Plot.dot(rows, { x: "x", y: "y", r: "us", fill: "kind", fillOpacity: 0.55, stroke: "kind" }),
        Plot.tip(rows, Plot.pointer({ x: "x", y: "y", fill: variable("--raised"), title: (r) => `${titleOf(r.k)}\n${micro(r.us)}, ${r.y.toFixed(1)} GFLOP/s\n${r.x.toFixed(2)} FLOPs a byte` })),
      ],
    }), "Roofline: arithmetic a second over arithmetic a byte, for every kernel"),
  ];
}

function errorsView() {
  const c = doc.check;
  if (!c) return [el("p", { class: "empty" }, "This build was not checked. edgec build --report holds it against a reference, unless --quick.")];
  const stagesOf = c.stages.map((s) => ({ ...s, shown: Math.max(s.max_rel ?? 1, 1e-9) }));
  const alone = c.blocks.filter((b) => known(b.max_rel)).map((b) => ({ ...b, shown: Math.max(b.max_rel, 1e-9) }));
  const bound = [Plot.ruleX([c.tolerance], { stroke: HUES[5], strokeDasharray: "5 4" }), Plot.text([c.tolerance], { x: (v) => v, frameAnchor: "top", dy: -8, text: () => "tolerance", fill: "currentColor" })];
  const axis = { type: "log", label: "error, of the largest value →", grid: true, tickFormat: ".0e", ticks: chartWidth() / 120 };
  return [
    el("p", {}, `Beside ${c.reference}; ${c.ok ? "everything is" : "not everything is"} within ${error(c.tolerance)}.`),
    el("h2", {}, "Stage by stage"),
    chart(Plot.plot({ ...base(), height: 40 * stagesOf.length + 50, marginLeft: 90, x: { ...axis, domain: [1e-9, Math.max(c.tolerance * 3, d3.max(stagesOf, (s) => s.shown) * 2)] }, y: { label: null, domain: stagesOf.map((s) => s.stage) },
      marks: [Plot.ruleY(stagesOf, { x1: 1e-9, x2: "shown", y: "stage", stroke: HUES[0], strokeWidth: 10 }), bound,
        Plot.text(stagesOf, { x: "shown", y: "stage", dx: 8, textAnchor: "start", fill: "currentColor", text: (s) => (s.max_rel ? `${error(s.max_rel)}, ${error(s.added_rel)} added` : "none") })] }), "Error of every stage beside the reference"),
    el("h2", {}, "Every kernel alone"),
    alone.length ? chart(Plot.plot({ ...base(), height: 260, marginLeft: 58, x: { label: "kernel →" }, y: { type: "log", label: "↑ error, of the largest value", grid: true, tickFormat: ".0e", ticks: 6 },
      marks: [Plot.ruleY([c.tolerance], { stroke: HUES[5], strokeDasharray: "5 4" }), Plot.ruleX(alone, { x: "kernel", y1: 1e-9, y2: "shown", stroke: HUES[0], strokeOpacity: 0.4 }), Plot.dot(alone, { x: "kernel", y: "shown", fill: HUES[0], r: 3.5 }),
        Plot.tip(alone, Plot.pointer({ x: "kernel", y: "shown", fill: variable("--raised"), title: (b) => `${titleOf(doc.kernels[b.kernel])}\n${error(b.max_rel)}` }))] }), "Error of every kernel alone") : el("p", { class: "none" }, "Kernels were not run alone."),
    el("h2", {}, "Outputs"),
    table("Outputs", [
      { title: "output", value: (o) => o.name, cell: (o) => o.name }, { title: "largest difference", number: true, value: (o) => o.max_abs, cell: (o) => error(o.max_abs) },
      { title: "of the largest value", number: true, value: (o) => o.max_rel, cell: (o) => error(o.max_rel) }, { title: "verdict", value: (o) => o.ok, cell: (o) => `${o.ok ? "ok" : "beyond the tolerance"}${o.differ ? `, ${o.differ} of ${o.elements} differ` : ""}` },
    ], c.outputs),
  ];
}
