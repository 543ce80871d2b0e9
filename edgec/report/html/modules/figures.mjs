// Figures as people read them.

export const known = (value) => value !== null && value !== undefined;

export function size(bytes) {
  if (!known(bytes)) return "–";
  let amount = bytes;
  for (const unit of ["B", "KiB", "MiB"]) {
    if (Math.abs(amount) < 1024) return unit === "B" ? `${amount} B` : `${amount.toFixed(1)} ${unit}`;
    amount /= 1024;
  }
  return `${amount.toFixed(2)} GiB`;
}

export function count(value) {
  if (!known(value)) return "–";
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(value) >= limit) return `${(value / limit).toFixed(1)} ${unit}`;
  return `${Math.round(value)}`;
}

export function micro(us) {
  if (!known(us)) return "–";
  return us < 1 ? `${us.toFixed(2)} µs` : us < 1000 ? `${us.toFixed(1)} µs` : `${(us / 1000).toFixed(2)} ms`;
}

export const error = (value) => (known(value) ? (value === 0 ? "0" : value.toExponential(1)) : "–");
/** A number of things that take an s: 1 kernel, 2 kernels. */
export const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
export const percent = (share) => (known(share) ? `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %` : "–");
export const short = (text, most) => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);

/** The end of a node's name; of one that was made of several ("a;b;c"), of the first, which others do not share. */
export const nodeTail = (name, most = 22) => tail(name.split(";")[0], most);

/** The end of a name: the part that tells nodes of one layer apart. */
export const tail = (name, most = 22) => (name.length <= most ? name : `…${name.slice(1 - most)}`);
