// Tables: kernels, laws, refusals, the build.

const PAGE_ROWS = 300;

/** A table that sorts by its heads. Columns: title, value (to sort by), cell (what is shown), number. */
function table(caption, columns, rows, open, sorted = null) {
  const state = { by: sorted, down: true, all: false };
  const body = el("tbody");
  const heads = columns.map((c, k) => el("th", { scope: "col", class: c.number ? "number" : null },
    el("button", { type: "button", onclick: () => { state.down = state.by === k ? !state.down : Boolean(c.number); state.by = k; fill(); } }, c.title)));
  const more = el("button", { class: "button", type: "button", onclick: () => { state.all = true; fill(); } });
  function fill() {
    const order = [...rows];
    if (state.by !== null) {
      const { value } = columns[state.by];
      order.sort((a, b) => d3[state.down ? "descending" : "ascending"](value(a) ?? -Infinity, value(b) ?? -Infinity));
    }
    heads.forEach((h, k) => (k === state.by ? h.setAttribute("aria-sort", state.down ? "descending" : "ascending") : h.removeAttribute("aria-sort")));
    const shown = state.all ? order : order.slice(0, PAGE_ROWS);
    body.replaceChildren(...shown.map((row) => el("tr", { class: open ? "opens" : null, onclick: open && ((e) => e.target.closest("button") || open(row)) },
      columns.map((c) => el("td", { class: [c.number && "number", c.kind].filter(Boolean).join(" ") || null }, c.cell(row))))));
    more.hidden = shown.length === order.length;
    more.textContent = `Show all ${order.length}`;
  }
  fill();
  return el("div", {}, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {}, el("caption", { class: "sr" }, caption), el("thead", {}, el("tr", {}, heads)), body)), el("p", {}, more));
}

const namesOf = (names) => (names.length ? short(names.slice(0, 4).join(", ") + (names.length > 4 ? ` and ${names.length - 4} more` : ""), 160) : "–");

function kernelsView() {
  const most = d3.max(doc.kernels, timeOf) || 1;
  const total = d3.sum(doc.kernels, timeOf) || 1;
  const measured = isMeasured();
  return [
    el("p", { class: "quiet" }, measured ? "Times of each kernel in a run on one thread; their sum leaves out what lies between kernels." : "Times are predictions of the device's model: nothing was measured."),
    table("Kernels", [
      { title: "#", number: true, value: (k) => k.kernel, cell: (k) => el("button", { class: "link", type: "button", onclick: () => openKernel(k.kernel) }, String(k.kernel)) },
      { title: "operators", value: (k) => k.operators.join(" "), cell: (k) => short(k.operators.join(" "), 44) },
      { title: "nodes of the model", kind: "names", value: (k) => k.nodes.join(), cell: (k) => namesOf(k.nodes) },
      { title: "schedule", value: (k) => k.kind, cell: (k) => k.kind },
      { title: measured ? "time" : "predicted", number: true, value: timeOf, cell: (k) => [el("i", { class: "share", style: { width: `${(60 * timeOf(k)) / most}px` } }), micro(timeOf(k))] },
      { title: "share", number: true, value: timeOf, cell: (k) => percent(timeOf(k) / total) },
      { title: "FLOPs", number: true, value: (k) => k.flops, cell: (k) => count(k.flops) },
      { title: "GFLOP/s", number: true, value: (k) => k.flops / timeOf(k), cell: (k) => (timeOf(k) > 0 ? (k.flops / timeOf(k) / 1e3).toFixed(1) : "–") },
      { title: "bytes", number: true, value: bytesOf, cell: (k) => size(bytesOf(k)) },
      { title: "weights", number: true, value: (k) => k.weights_bytes, cell: (k) => size(k.weights_bytes) },
      { title: "precision", value: (k) => k.precision, cell: (k) => k.precision },
      { title: "zeros", number: true, value: (k) => k.sparsity, cell: (k) => percent(k.sparsity) },
      { title: "error", number: true, value: (k) => k.max_rel, cell: (k) => error(k.max_rel) },
    ], doc.kernels, (k) => openKernel(k.kernel)),
  ];
}

/** Buttons that filter a table by one of its values. */
function filtered(rows, value, draw) {
  const counts = d3.rollups(rows, (v) => v.length, value).sort((a, b) => b[1] - a[1]);
  const place = el("div");
  const show = (name) => {
    for (const b of bar.children) b.setAttribute("aria-pressed", String(b.dataset.name === (name ?? "")));
    place.replaceChildren(draw(name === null ? rows : rows.filter((r) => value(r) === name)));
  };
  const button = (name, n) => el("button", { type: "button", "data-name": name ?? "", onclick: () => show(name) }, `${name ?? "all"} ${n}`);
  const bar = el("div", { class: "filter", role: "group", "aria-label": "Show" }, button(null, rows.length), counts.map(([name, n]) => button(name, n)));
  show(null);
  return [bar, place];
}

function lawsView() {
  if (!doc.laws.length) return [el("p", { class: "empty" }, "No law applied: the model was as simple as the laws know.")];
  return [
    el("p", { class: "quiet" }, `${doc.laws.length} steps, in the order they were taken. Every law is proved on generated instances; each step made the whole graph cheaper.`),
    ...filtered(doc.laws, (law) => law.rule, (rows) => table("Laws applied", [
      { title: "rule", value: (l) => l.rule, cell: (l) => [l.rule, el("div", { class: "quiet" }, `${l.law}, ${l.numeric}`)] },
      { title: "nodes of the model", kind: "names", value: (l) => l.nodes.join(), cell: (l) => namesOf(l.nodes) },
      { title: "before", kind: "code", value: (l) => l.before, cell: (l) => l.before },
      { title: "after", kind: "code", value: (l) => l.after, cell: (l) => l.after },
      { title: "saves", value: (l) => l.gain.flops || 0, cell: (l) => Object.entries(l.gain).filter(([k]) => ["flops", "bytes", "operators"].includes(k)).map(([k, v]) => el("div", { style: { whiteSpace: "nowrap" } }, `${count(v)} ${k}`)) },
    ], rows)),
  ];
}

function refusalsView() {
  const parts = [el("h2", {}, "Why neighbors are two kernels")];
  if (!doc.refusals.length) parts.push(el("p", { class: "empty" }, "Nothing was refused: everything is one kernel."));
  else parts.push(...filtered(doc.refusals, (r) => r.constraint || "other", (rows) => table("Refusals", [
    { title: "computes", kind: "names", value: (r) => r.writer, cell: (r) => r.writer },
    { title: "reads it", kind: "names", value: (r) => r.reader, cell: (r) => r.reader },
    { title: "constraint", value: (r) => r.constraint, cell: (r) => r.constraint },
    { title: "because", value: (r) => r.why, cell: (r) => r.why },
    { title: "pair of classes", value: (r) => r.cell.colour, cell: (r) => `${r.cell.first} into ${r.cell.second}: ${r.cell.colour}` },
  ], rows)));
  parts.push(el("h2", {}, "Choices by price"));
  if (!doc.choices.length) parts.push(el("p", { class: "empty" }, "Nothing could have been either way."));
  else parts.push(table("Choices", [
    { title: "question", value: (c) => c.kind, cell: (c) => c.kind },
    { title: "about", kind: "names", value: (c) => c.about, cell: (c) => c.about },
    { title: "taken", value: (c) => c.taken.name, cell: (c) => `${c.taken.name}: ${micro(c.taken.us)}` },
    { title: "instead of", value: (c) => c.others[0]?.name, cell: (c) => c.others.map((o) => el("div", {}, `${o.name}: ${micro(o.us)}`)) },
    { title: "by", value: (c) => c.source, cell: (c) => c.source },
  ], doc.choices));
  return parts;
}

function buildView() {
  const { build, provenance, device } = doc;
  const text = (value) => (Array.isArray(value) ? value.map((v) => (typeof v === "object" && v ? v.onnx_name || JSON.stringify(v) : v)).join(", ") : typeof value === "object" && value ? JSON.stringify(value) : String(value));
  const rows = (record) => facts(Object.entries(record).filter(([, v]) => known(v) && v !== "" && v !== 0 && !(typeof v === "object" && !Object.keys(v).length)).map(([k, v]) => [k.replaceAll("_", " "), k.endsWith("_bytes") && typeof v === "number" && k !== "vector_bytes" ? size(v) : text(v)]));
  const files = Object.entries(build.files).map(([path, bytes]) => ({ path, bytes }));
  return [
    el("h2", {}, "Seconds"), facts(Object.entries(build.seconds).map(([k, s]) => [k, `${s.toFixed(2)} s`])),
    el("h2", {}, "Memory of the device"),
    facts([["RAM", `${size(build.memory.ram.bytes)}${build.memory.ram.of ? ` of ${size(build.memory.ram.of)}` : ""}`], ["flash", `${size(build.memory.flash.bytes)} of weights${build.memory.flash.of ? `, of ${size(build.memory.flash.of)}` : ""}`]]),
    el("h2", {}, `Files, ${size(d3.sum(files, (f) => f.bytes))}`),
    table("Files", [
      { title: "file", kind: "code", value: (f) => f.path, cell: (f) => f.path },
      { title: "bytes", number: true, value: (f) => f.bytes, cell: (f) => size(f.bytes) },
    ], files, null, 1),
    el("h2", {}, "Provenance"), rows(provenance), el("h2", {}, "Device"), rows(device),
    el("h2", {}, "Inside this page"),
    el("p", { class: "quiet" }, "cytoscape 3.34.4 (MIT), @dagrejs/dagre 3.1.3 (MIT), d3 7.9.0 (ISC), @observablehq/plot 0.6.17 (ISC). The page asks no network for anything."),
  ];
}
