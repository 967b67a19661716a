/**
 * A chat over OpenAI's chat completions whose tools are the service's.
 *
 *     STC_URL=http://127.0.0.1:8787 STC_TOKEN=… OPENAI_API_KEY=… MODEL_URL=https://api.openai.com \
 *       bun docs/examples/chat-openai.ts "What is in the workspace?"
 */
import { askModel, converse, tools } from "./chat-loop.ts";

interface Message {
  readonly role: "assistant";
  readonly content: string | null;
  readonly tool_calls?: readonly {
    readonly id: string;
    readonly function: { readonly name: string; readonly arguments: string };
  }[];
}

const declared = await tools("openai");
const text = await converse({
  format: "openai",
  prompt: { role: "user", content: process.argv[2] ?? "" },
  ask: (messages) =>
    askModel(
      "/v1/chat/completions",
      { model: process.env["MODEL"] ?? "gpt-5", messages, tools: declared },
      { authorization: `Bearer ${process.env["OPENAI_API_KEY"] ?? ""}` },
    ),
  messageOf: (answer) => (answer as { choices: [{ message: Message }] }).choices[0].message,
  callsOf: (message) =>
    ((message as Message).tool_calls ?? []).map((call) => ({
      tool: call.function.name,
      args: JSON.parse(call.function.arguments),
      callId: call.id,
    })),
  textOf: (message) => (message as Message).content ?? "",
});
console.log(text);
