// Runs a batch: reads the inputs from standard input into the module's memory, calls it, writes the outputs.
import { readFileSync, writeFileSync } from "node:fs";
const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), {});
const { memory, batch, batch_bytes, __heap_base } = instance.exports;
const given = readFileSync(0);
const begin = (__heap_base.value + 63) & ~63;
const end = begin + batch_bytes();
memory.grow((end + 65535 >> 16) + 1 - (memory.buffer.byteLength >> 16) + 0);
new Uint8Array(memory.buffer).set(given, begin);
const failed = batch(begin);
if (failed) { console.error(`case ${failed - 1} was refused`); process.exit(1); }
writeFileSync(1, new Uint8Array(memory.buffer, begin, end - begin));
