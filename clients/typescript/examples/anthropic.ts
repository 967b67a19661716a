/** Anthropic's messages: `STC_URL=… STC_TOKEN=… ANTHROPIC_API_KEY=… bun anthropic.ts "What shall be done?"` */
import Anthropic from "@anthropic-ai/sdk";
import { SafeToolCallClient } from "safe-tool-call-client";
import { anthropicTools } from "safe-tool-call-client/anthropic";

const { STC_URL: url = "", STC_TOKEN: token = "", MODEL: model = "claude-sonnet-4-5" } = process.env;
const task = process.argv[2] ?? "";
const client = new SafeToolCallClient({ url, token });

// The agent.
const { tools, answer } = await anthropicTools(client, {
  onPending: ({ approval }) => console.error(`waiting: ${approval.id}`),
});
const messages: Anthropic.MessageParam[] = [];
for (let content: Anthropic.MessageParam["content"] = task; content.length > 0; content = await answer(messages)) {
  messages.push({ role: "user", content });
  const reply = await new Anthropic().messages.create({ model, max_tokens: 4_096, messages, tools });
  messages.push({ role: "assistant", content: reply.content });
  for (const block of reply.content) if (block.type === "text") console.log(block.text);
}
