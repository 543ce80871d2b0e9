// node run.mjs FOLDER NAME SIDE: runs the module of the app `web` on FOLDER/INPUT.bin, and writes FOLDER/OUTPUT.out;
// sizes that are open are SIDE.
import { readFileSync, writeFileSync } from "node:fs";

const [, , folder, name, side] = process.argv;
const bytes = (file) => new Uint8Array(readFileSync(`${folder}/${file}`)).buffer;
const { Network } = await import(`file://${folder}/${name}.js`);
const network = await Network.of(bytes(`${name}.wasm`), bytes(`${name}_weights.bin`));
for (const [port, array] of Object.entries(network.inputs)) array.set(new array.constructor(bytes(`${port}.bin`)));
network.sizes?.fill(BigInt(side));
network.run();
for (const [port, array] of Object.entries(network.outputs)) writeFileSync(`${folder}/${port}.out`, array);
