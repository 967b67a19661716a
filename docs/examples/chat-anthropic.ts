/**
 * A chat over Anthropic's messages whose tools are the service's.
 *
 *     STC_URL=http://127.0.0.1:8787 STC_TOKEN=… ANTHROPIC_API_KEY=… MODEL_URL=https://api.anthropic.com \
 *       bun docs/examples/chat-anthropic.ts "What is in the workspace?"
 */
import { askModel, converse, tools } from "./chat-loop.ts";

type Block =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "tool_use"; readonly id: string; readonly name: string; readonly input: unknown };

interface Message {
  readonly role: "assistant";
  readonly content: readonly Block[];
}

const declared = await tools("anthropic");
const text = await converse({
  format: "anthropic",
  prompt: { role: "user", content: process.argv[2] ?? "" },
  ask: (messages) =>
    askModel(
      "/v1/messages",
      { model: process.env["MODEL"] ?? "claude-sonnet-4-5", max_tokens: 4096, messages, tools: declared },
      { "x-api-key": process.env["ANTHROPIC_API_KEY"] ?? "", "anthropic-version": "2023-06-01" },
    ),
  messageOf: (answer) => {
    const { role, content } = answer as Message;
    return { role, content };
  },
  callsOf: (message) =>
    (message as Message).content.flatMap((block) =>
      block.type === "tool_use" ? [{ tool: block.name, args: block.input, callId: block.id }] : [],
    ),
  textOf: (message) =>
    (message as Message).content.map((block) => (block.type === "text" ? block.text : "")).join(""),
});
console.log(text);
