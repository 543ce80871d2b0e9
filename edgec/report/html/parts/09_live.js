// Decisions, where edgec serves the page: toggled here, rebuilt and measured there, written to edgec.toml.

const token = document.body.dataset.live || null;

async function ask(path, body) {
  const headers = { "content-type": "application/json", "x-edgec": token };
  const answer = await fetch(path, body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ? `${found.error.message}${found.error.hint ? `: ${found.error.hint}` : ""}` : answer.statusText);
  return found;
}

/** What can be decided about a kernel; nothing in a file. */
function decisions(kernel) {
  if (!token) return null;
  const options = doc.decidable?.[kernel.kernel] || [];
  if (!options.length) return null;
  const row = (option) => {
    const select = el("select", { "aria-label": option.title, onchange: () => decide(option, select.value, kernel) }, option.values.map((v) => el("option", { value: v.value, selected: v.value === option.now }, v.text)));
    return el("label", { class: "row" }, el("span", {}, option.title), select);
  };
  return el("div", { class: "decide", id: "decide" }, el("h3", {}, "Decide"), options.map(row), el("p", { class: "quiet", id: "decide-status", role: "status" }, "A change rebuilds the network and measures it again."));
}

async function decide(option, value, kernel) {
  const status = byId("decide-status");
  status.textContent = "building and measuring…";
  for (const s of document.querySelectorAll("#decide select")) s.disabled = true;
  try {
    const { document: fresh, changed } = await ask("/api/decide", { kind: option.kind, key: option.key, value });
    indexed(fresh);
    closeDetail();
    refresh();
    const one = (c) => el("span", {}, `${c.name} ${c.before} → `, el("b", { class: c.better === true ? "better" : c.better === false ? "worse" : null }, c.after));
    const undo = el("button", { class: "button", type: "button", onclick: () => { decide({ ...option }, option.now, kernel); } }, "Undo");
    openDetail("What changed", [el("p", {}, `${option.title}: `, el("b", {}, option.values.find((v) => v.value === value).text)), el("div", { class: "changed", id: "changed" }, changed.map(one)), el("p", { class: "quiet" }, "Kept in edgec.toml."), el("div", { id: "decide" }, undo, el("p", { class: "quiet", id: "decide-status", role: "status" }))], true);
  } catch (problem) {
    status.textContent = `Not changed. ${problem.message}`;
    for (const s of document.querySelectorAll("#decide select")) s.disabled = false;
  }
}
