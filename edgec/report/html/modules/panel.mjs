// The panel at the side.

import { byId } from "./dom.mjs";

let opener = null;
let atClose = () => {};

/** Call `action` whenever the panel closes. */
export const whenClosed = (action) => (atClose = action);

export function openDetail(title, content, isNarrow) {
  const panel = byId("detail");
  if (panel.hidden) opener = document.activeElement;
  byId("detail-title").textContent = title;
  byId("detail-body").replaceChildren(...content);
  byId("detail-body").scrollTop = 0;
  panel.classList.toggle("narrow", Boolean(isNarrow));
  panel.hidden = false;
  byId("detail-title").focus();
}

export function closeDetail() {
  const panel = byId("detail");
  if (panel.hidden) return;
  panel.hidden = true;
  atClose();
  opener?.focus?.();
}
