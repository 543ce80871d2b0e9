// Starts a WebAssembly program on Node.js, in the folder it is started from: node wasi.mjs PROGRAM [ARGUMENTS...]
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [, , program, ...words] = process.argv;
const wasi = new WASI({ version: "preview1", args: [program, ...words], preopens: { ".": "." }, returnOnExit: true });
const { instance } = await WebAssembly.instantiate(await readFile(program), wasi.getImportObject());
process.exitCode = wasi.start(instance);
