/**
 * A chat over Google's generateContent whose tools are the service's.
 *
 *     STC_URL=http://127.0.0.1:8787 STC_TOKEN=… GEMINI_API_KEY=… MODEL_URL=https://generativelanguage.googleapis.com \
 *       bun docs/examples/chat-google.ts "What is in the workspace?"
 */
import { randomUUID } from "node:crypto";
import { askModel, converse, tools } from "./chat-loop.ts";

interface Part {
  readonly text?: string;
  readonly functionCall?: { readonly id?: string; readonly name: string; readonly args: unknown };
}

interface Content {
  readonly role: "model";
  readonly parts: readonly Part[];
}

const functionDeclarations = await tools("google");
const text = await converse({
  format: "google",
  prompt: { role: "user", parts: [{ text: process.argv[2] ?? "" }] },
  ask: (contents) =>
    askModel(
      `/v1beta/models/${process.env["MODEL"] ?? "gemini-2.5-pro"}:generateContent`,
      { contents, tools: [{ functionDeclarations }] },
      { "x-goog-api-key": process.env["GEMINI_API_KEY"] ?? "" },
    ),
  messageOf: (answer) => {
    const { content } = (answer as { candidates: [{ content: Content }] }).candidates[0];
    return { role: "model", parts: content.parts.map(withId) };
  },
  callsOf: (message) =>
    (message as Content).parts.flatMap(({ functionCall: call }) =>
      call === undefined ? [] : [{ tool: call.name, args: call.args, callId: call.id ?? "" }],
    ),
  textOf: (message) => (message as Content).parts.map(({ text = "" }) => text).join(""),
});
console.log(text);

/** Adds an id to a call without one: an approval request names the call that waits. */
function withId(part: Part): Part {
  const { functionCall: call } = part;
  return call === undefined ? part : { ...part, functionCall: { ...call, id: call.id ?? randomUUID() } };
}
