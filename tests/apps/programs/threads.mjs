// node threads.mjs FOLDER SCRATCH: the package `net` of three threads, in FOLDER, with one to three of them, and with
// workers that are slow or fail, in copies below SCRATCH. Prints JSON.
import { cpSync, readFileSync, writeFileSync } from "node:fs";

const [, , folder, scratch] = process.argv;
const bytes = (file) => new Uint8Array(readFileSync(`${folder}/${file}`)).buffer;
const single = bytes("net.wasm"), shared = bytes("net_threads.wasm"), weights = bytes("net_weights.bin");
const { Network } = await import(`file://${folder}/net.js`);
const told = { threads: [], same: [] };
const attempt = async (name, work) => {
  told[name] = await Promise.resolve().then(work).then(() => "nothing", (problem) => problem.message);
};

let first, last;
for (const threads of [1, 2, 3]) {
  const network = await Network.of(threads > 1 ? shared : single, weights, { threads });
  network.inputs.x.forEach((_, k) => { network.inputs.x[k] = Math.sin(k); });
  for (let k = 0; k < 50; ++k) {
    network.outputs.y.fill(-1);
    network.run();
  }
  const found = Buffer.from(network.outputs.y.slice().buffer);
  first ??= found;
  told.threads.push(network.threads);
  told.same.push(found.equals(first));
  last = network;
}
await attempt("four", () => Network.of(shared, weights, { threads: 4 }));
await attempt("half", () => Network.of(shared, weights, { threads: 1.5 }));
await attempt("patience", () => Network.of(shared, weights, { threads: 2, patience: 0 }));
await attempt("single", () => Network.of(single, weights, { threads: 2 }));
await attempt("shared", () => Network.of(shared, weights));
last.close();
await attempt("closed", () => last.run());

const replaced = (file, line, instead) => {
  const text = readFileSync(file, "utf8");
  if (!text.includes(line)) throw new Error(`no ${line}`);
  writeFileSync(file, text.replace(line, instead));
};
const changed = async (name, line, instead, may_sleep = "may_sleep()", patience = undefined) => {
  cpSync(folder, `${scratch}/${name}`, { recursive: true });
  replaced(`${scratch}/${name}/thread.js`, line, instead);
  replaced(`${scratch}/${name}/net.js`, "(pool, may_sleep())", `(pool, ${may_sleep})`);
  const { Network: Changed } = await import(`file://${scratch}/${name}/net.js`);
  await attempt(name, async () => {
    const network = await Changed.of(shared, weights, { threads: 3, patience });
    network.inputs.x.forEach((_, k) => { network.inputs.x[k] = Math.sin(k); });
    network.run();
    if (!Buffer.from(network.outputs.y.slice().buffer).equals(first)) throw new Error("other bits");
  });
};
const work = "exports.net_ec_pool_work(pool, thread);";
const wait = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);";
await changed("slow", work, `if (thread === 1) ${wait} ${work}`);
await changed("late", work, `if (thread === 1) throw new Error("lost"); ${work}`);
const ends = `if (thread === 1) process.exit(); ${work}`;
await changed("ended", work, ends, 1, 0.4); // the thread alone, without a word
await changed("watched", work, ends, 0, 0.4);
await changed("stack", work, `if (exports.__stack_pointer.value !== stack + bytes) throw new Error("not its own"); ${work}`);
await changed("early", "const { exports }", "if (thread === 2) throw new Error('no seat'); const { exports }");
console.log(JSON.stringify(told)); // the workers of two networks still wait, and the program ends all the same
