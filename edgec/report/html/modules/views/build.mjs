// The build: seconds, memory, files, provenance and device.

import { doc } from "../data.mjs";
import { el } from "../dom.mjs";
import { known, size } from "../figures.mjs";
import { facts, table } from "../table.mjs";

const isTable = (v) => typeof v === "object" && v !== null && !Array.isArray(v);
const text = (value) => (Array.isArray(value) ? value.map((v) => (isTable(v) ? v.onnx_name || JSON.stringify(v) : v)).join(", ") : String(value));

/** The facts of a record, of tables inside it as well, by their path; what is empty or zero is left out. */
function leaves(record, path = "") {
  return Object.entries(record).filter(([, v]) => known(v) && v !== "" && v !== 0 && !(typeof v === "object" && !Object.keys(v).length)).flatMap(([k, v]) => {
    const name = path + k.replaceAll("_", " ");
    return isTable(v) ? leaves(v, `${name}: `) : [[name, k.endsWith("_bytes") && typeof v === "number" && k !== "vector_bytes" ? size(v) : text(v)]];
  });
}

export function buildView() {
  const { build, provenance, device } = doc;
  const rows = (record) => facts(leaves(record));
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
    el("h2", {}, "Provenance"), rows(provenance), el("h2", {}, "Device"), rows({ ...device, costs: null }),
    el("details", {}, el("summary", {}, "Costs that the compiler computes with"), rows(device.costs || {})),
    el("h2", {}, "Inside this page"),
    el("p", { class: "quiet" }, "cytoscape 3.34.4 (MIT), @dagrejs/dagre 3.1.3 (MIT), d3 7.9.0 (ISC), @observablehq/plot 0.6.17 (ISC). The page asks no network for anything."),
  ];
}
