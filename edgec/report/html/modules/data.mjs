// The document of the build, and where each name occurs in it.

import { byId } from "./dom.mjs";
import { known, nodeTail, short } from "./figures.mjs";

/** JSON out of base64 of gzip. */
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

export let doc = await unpacked(byId("data").textContent);
export let stages, byName, kernelsByName;

/** Indexes over a document; again after a rebuild. */
export function indexed(given) {
  doc = given;
  stages = new Map(doc.stages.map((s) => [s.name, s]));
  byName = new Map();
  kernelsByName = new Map();
  for (const stage of doc.stages)
    for (const node of stage.nodes)
      for (const name of node.names || []) {
        const places = byName.get(name) || byName.set(name, new Map()).get(name);
        (places.get(stage.name) || places.set(stage.name, []).get(stage.name)).push(node.id);
      }
  for (const kernel of doc.kernels)
    for (const name of kernel.nodes) (kernelsByName.get(name) || kernelsByName.set(name, []).get(name)).push(kernel.kernel);
  // What a block or operator costs is known of the kernels it is in.
  const ofBlock = new Map();
  for (const kernel of doc.kernels) for (const b of kernel.blocks) ofBlock.set(b, kernel.kernel);
  for (const stage of doc.stages)
    for (const node of stage.nodes) {
      if (known(node.block)) node.kernel = ofBlock.get(node.block);
      else if (!known(node.kernel) && node.op !== "input" && node.op !== "output")
        for (const name of node.names || []) if (kernelsByName.has(name)) node.kernel = kernelsByName.get(name).at(-1);
    }
}
indexed(doc);

export const timeOf = (kernel) => (known(kernel.measured_us) ? kernel.measured_us : kernel.predicted_us);
export const bytesOf = (kernel) => kernel.bytes_read + kernel.bytes_written;
export const isMeasured = () => doc.kernels.some((k) => known(k.measured_us));

/** The name of a kernel: of the last node of the model that no kernel before it computes a part of. */
export function nameOf(kernel) {
  const own = kernel.nodes.filter((name) => kernelsByName.get(name)[0] === kernel.kernel);
  return nodeTail((own.length ? own : kernel.nodes).at(-1) || "");
}

/** A kernel in a few words, the name first: what it computes is often what others compute too. */
export function titleOf(kernel, most = 28) {
  const name = nameOf(kernel);
  return [String(kernel.kernel), name, most ? short(kernel.operators.join(" "), most) : ""].filter(Boolean).join(" · ");
}
