// Generated source with its comments, words and numbers in colors.

import { el } from "./dom.mjs";

const C_WORDS =
  /(\/\*[\s\S]*?\*\/|\/\/[^\n]*)|("(?:[^"\\\n]|\\.)*")|\b(alignas|break|case|char|const|continue|do|double|else|enum|extern|float|for|if|inline|int|long|return|restrict|short|signed|sizeof|static|struct|switch|typedef|unsigned|void|volatile|while|__global__|__shared__|__kernel|kernel|global|local|ec_[a-z0-9_]+|[su]?int(?:8|16|32|64)_t|ptrdiff_t|size_t)\b|\b(0x[0-9a-fA-F]+|\d+\.?\d*(?:e[+-]?\d+)?f?)\b/g;

/** C with its comments, words and numbers told apart. */
export function highlighted(source) {
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
