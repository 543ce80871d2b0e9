// Decisions, where edgec serves the page: toggled here, rebuilt and measured there, written to edgec.toml.

import { doc, indexed } from "./data.mjs";
import { byId, el } from "./dom.mjs";
import { error, known, micro, size } from "./figures.mjs";
import { closeDetail, openDetail } from "./panel.mjs";

const token = document.body.dataset.live || null;
let redraw = () => {};

/** Call `action` after a rebuild, to draw what is shown anew. */
export const whenRebuilt = (action) => (redraw = action);

async function ask(path, body) {
  const headers = { "content-type": "application/json", "x-edgec": token };
  const answer = await fetch(path, body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ? `${found.error.message}${found.error.hint ? `: ${found.error.hint}` : ""}` : answer.statusText);
  return found;
}

/** What can be decided about a kernel; nothing in a file. */
export function decisions(kernel) {
  if (!token) return null;
  const options = doc.decidable?.kernels[kernel.kernel] || [];
  return options.length ? questions(options, "decide") : null;
}

/** Selects for questions; a change is a decision. */
function questions(options, id) {
  const row = (option) => {
    const select = el("select", { "aria-label": option.title, onchange: () => decide(option, select.value) }, option.values.map((v) => el("option", { value: v.value, selected: v.value === option.now }, v.text)));
    return el("label", { class: "row" }, el("span", {}, option.title), select);
  };
  return el("div", { class: "decide", id }, el("h3", {}, "Decide"), options.map(row), el("p", { class: "quiet status", role: "status" }, "A change rebuilds the network and measures it again."));
}

/** What can be decided about the network as a whole, on the overview. */
export function showNetworkDecisions() {
  if (token) byId("network-decisions").replaceChildren(questions(doc.decidable.network, "decide-network"));
}

async function decide(option, value) {
  const tell = (text) => { for (const p of document.querySelectorAll(".decide .status")) p.textContent = text; };
  const lock = (is) => { for (const s of document.querySelectorAll(".decide select, .decide button")) s.disabled = is; };
  tell("building and measuring…");
  lock(true);
  try {
    const { document: fresh, changed } = await ask("/api/decide", { kind: option.kind, key: option.key, value });
    indexed(fresh);
    closeDetail();
    redraw();
    const undo = el("button", { class: "button", type: "button", onclick: () => decide({ ...option, now: value }, option.now) }, "Undo");
    openDetail("What changed", [
      el("p", {}, `${option.title}: `, el("b", {}, option.values.find((v) => v.value === value)?.text ?? value)),
      el("dl", { class: "facts", id: "changed" }, changed.map((c) => [el("dt", {}, c.name), el("dd", {}, `${c.before} → `, el("b", { class: c.better === true ? "better" : c.better === false ? "worse" : null }, c.after))])),
      el("p", { class: "quiet" }, "Kept in edgec.toml."),
      el("div", { class: "decide" }, undo, el("p", { class: "quiet status", role: "status" })),
    ], true);
    drawCards();
  } catch (problem) {
    tell(`Not changed. ${problem.message}`);
    lock(false);
    for (const s of document.querySelectorAll(".decide select")) s.value = [...s.options].find((o) => o.defaultSelected)?.value ?? "";
  }
}

/** The figures at the top are part of the page; after a decision they are those of the new build. */
function drawCards() {
  const { build, bench } = doc;
  const figures = { latency: bench ? micro(bench.median_ms * 1e3) : "not measured", kernels: build.kernels, arena: size(build.arena_bytes), weights: size(build.weights_bytes), traffic: size(build.traffic.read + build.traffic.written), error: known(doc.error) ? error(doc.error) : "–" };
  for (const [name, text] of Object.entries(figures)) document.querySelector(`[data-figure="${name}"]`).textContent = text;
  for (const stage of doc.stages)
    document.querySelector(`.stage[data-stage="${stage.name}"] .stage-count`).textContent = stage.nodes.filter((n) => n.op !== "input" && n.op !== "output").length;
}
