// Elements, and figures as people read them.

const byId = (id) => document.getElementById(id);

/** An element; attributes that begin with "on" are listeners, children are nodes or text. */
function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(made.style, value);
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return made;
}

const known = (value) => value !== null && value !== undefined;

function size(bytes) {
  if (!known(bytes)) return "–";
  let amount = bytes;
  for (const unit of ["B", "KiB", "MiB"]) {
    if (Math.abs(amount) < 1024) return unit === "B" ? `${amount} B` : `${amount.toFixed(1)} ${unit}`;
    amount /= 1024;
  }
  return `${amount.toFixed(2)} GiB`;
}

function count(value) {
  if (!known(value)) return "–";
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(value) >= limit) return `${(value / limit).toFixed(1)} ${unit}`;
  return `${Math.round(value)}`;
}

function micro(us) {
  if (!known(us)) return "–";
  return us < 1 ? `${us.toFixed(2)} µs` : us < 1000 ? `${us.toFixed(1)} µs` : `${(us / 1000).toFixed(2)} ms`;
}

const error = (value) => (known(value) ? (value === 0 ? "0" : value.toExponential(1)) : "–");
const percent = (share) => (known(share) ? `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %` : "–");
const short = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

/** The end of a name: the part that tells nodes of one layer apart. */
const tail = (name, most = 22) => (name.length <= most ? name : `…${name.slice(1 - most)}`);

const say = (text) => (byId("said").textContent = text);

const C_WORDS =
  /(\/\*[\s\S]*?\*\/|\/\/[^\n]*)|("(?:[^"\\\n]|\\.)*")|\b(alignas|break|case|char|const|continue|do|double|else|enum|extern|float|for|if|inline|int|long|return|restrict|short|signed|sizeof|static|struct|switch|typedef|unsigned|void|volatile|while|__global__|__shared__|__kernel|kernel|global|local|ec_[a-z0-9_]+|[su]?int(?:8|16|32|64)_t|ptrdiff_t|size_t)\b|\b(0x[0-9a-fA-F]+|\d+\.?\d*(?:e[+-]?\d+)?f?)\b/g;

/** C with its comments, words and numbers told apart. */
function coloured(source) {
  const made = el("code");
  const text = source.trim().replace(/\n{3,}/g, "\n\n");
  let last = 0;
  for (const found of text.matchAll(C_WORDS)) {
    made.append(text.slice(last, found.index));
    const kind = found[1] ? "c" : found[2] ? "s" : found[3] ? "k" : "n";
    made.append(el("span", { class: kind }, found[0]));
    last = found.index + found[0].length;
  }
  made.append(text.slice(last));
  return el("pre", { tabindex: "0", role: "region", "aria-label": "Generated source" }, made);
}
