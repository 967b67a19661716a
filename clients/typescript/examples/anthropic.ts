/** Anthropic's messages: `STC_URL=… STC_TOKEN=… ANTHROPIC_API_KEY=… bun anthropic.ts "What shall be done?"` */
import Anthropic from "@anthropic-ai/sdk";
import { SafeToolCallClient } from "safe-tool-call-client";
import { anthropicTools } from "safe-tool-call-client/anthropic";

const { STC_URL: url = "", STC_TOKEN: token = "", MODEL: model = "claude-sonnet-4-5" } = process.env;
const client = new SafeToolCallClient({ url, token });

// The agent.
const { tools, answer } = await anthropicTools(client, {
  onPending: ({ approval }) => console.error(`waiting: ${approval.id}`),
});
const messages: Anthropic.MessageParam[] = [];
for (
  let next: Anthropic.MessageParam["content"] = process.argv[2] ?? "";
  next.length > 0;
  next = await answer(messages)
) {
  messages.push({ role: "user", content: next });
  const { content } = await new Anthropic().messages.create({ model, max_tokens: 4_096, messages, tools });
  messages.push({ role: "assistant", content });
  for (const block of content) if (block.type === "text") console.log(block.text);
}
