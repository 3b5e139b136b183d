// Holds a running server to what npm's openai and ai make of it:
//   node clients.mjs http://127.0.0.1:30000
import assert from "node:assert/strict";
import OpenAI from "openai";
import { generateText, streamText } from "ai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

const url = process.argv[2].replace(/\/$/, "") + "/v1";
const client = new OpenAI({ baseURL: url, apiKey: "none", maxRetries: 0 });
const model = (await client.models.list()).data[0].id;
const messages = [{ role: "user", content: "Tell me a story, 世界 🎉!" }];
const same = { model, messages, seed: 3, temperature: 0.7, max_tokens: 24 };

async function openai() {
  const whole = await client.chat.completions.create({ ...same, n: 2, logprobs: true, top_logprobs: 1 });
  assert.equal(whole.choices.length, 2);
  const stream = client.chat.completions.stream({ ...same, n: 2, stream_options: { include_usage: true } });
  let pieces = 0;
  for await (const chunk of stream) pieces += chunk.choices.length;
  const final = await stream.finalChatCompletion();
  for (const i of [0, 1]) {
    assert.equal(final.choices[i].message.content, whole.choices[i].message.content);
    assert.equal(final.choices[i].finish_reason, whole.choices[i].finish_reason);
  }
  assert.equal((await stream.totalUsage()).completion_tokens, whole.usage.completion_tokens);
  assert.equal(whole.choices[0].logprobs.content.length + whole.choices[1].logprobs.content.length, whole.usage.completion_tokens);
  assert.ok(pieces > 4);

  const texts = await client.completions.create({ model, prompt: ["a", "b"], seed: 1, max_tokens: 5 });
  assert.deepEqual(texts.choices.map((c) => c.index), [0, 1]);
  await assert.rejects(client.chat.completions.create({ ...same, top_p: 2 }), (e) => e.status === 400 && /top_p/.test(e.message) && e.param === "top_p");
  await assert.rejects(client.chat.completions.create({ ...same, model: "gpt-5" }), (e) => e.status === 404 && /gpt-5/.test(e.message));
  const left = await client.chat.completions.create({ ...same, max_tokens: 500, stream: true });
  for await (const _ of left) break; // and leaves
}

async function ai() {
  const provider = createOpenAICompatible({ name: "tokenrouter", baseURL: url, includeUsage: true });
  const ask = { model: provider.chatModel(model), messages, seed: 3, temperature: 0.7, maxOutputTokens: 24, maxRetries: 0 };
  const whole = await generateText(ask);
  const stream = streamText({ ...ask, onError: ({ error }) => { throw error; } });
  let text = "";
  for await (const piece of stream.textStream) text += piece;
  assert.equal(text, whole.text);
  assert.equal(await stream.finishReason, whole.finishReason);
  assert.equal((await stream.usage).outputTokens, whole.usage.outputTokens);
  assert.ok(whole.usage.outputTokens > 0);
  await assert.rejects(generateText({ ...ask, temperature: -1 }), (e) => e.statusCode === 400 && /temperature/.test(e.message));
}

await openai();
await ai();
console.log("npm openai and ai: all well");
