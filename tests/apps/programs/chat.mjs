// node chat.mjs FOLDER NAME SYSTEM MESSAGE...: a conversation with a language model of the app `web`; answers as JSON.
import { readFileSync } from "node:fs";

const [, , folder, name, system, ...messages] = process.argv;
const bytes = (file) => new Uint8Array(readFileSync(`${folder}/${file}`)).buffer;
const { LanguageModel } = await import(`file://${folder}/${name}.js`);
const model = await LanguageModel.of(bytes(`${name}.wasm`), bytes(`${name}_weights.bin`));
model.add("system", system);
const answers = [];
for (const message of messages) {
  let text = "";
  try {
    for await (const piece of model.answer(message)) {
      text += piece;
      if ([...text].length >= 12) break;
    }
  } catch (problem) {
    text = problem.message;
  }
  answers.push(text);
}
console.log(JSON.stringify(answers));
