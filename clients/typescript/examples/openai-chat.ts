/** Chat completions: `STC_URL=… STC_TOKEN=… OPENAI_API_KEY=… bun openai-chat.ts "What shall be done?"` */
import OpenAI from "openai";
import { SafeToolCallClient } from "safe-tool-call-client";
import { chatCompletionTools } from "safe-tool-call-client/openai";

const { STC_URL: url = "", STC_TOKEN: token = "", MODEL: model = "gpt-5" } = process.env;
const client = new SafeToolCallClient({ url, token });

// The agent.
const { tools, answer } = await chatCompletionTools(client, {
  onPending: ({ approval }) => console.error(`waiting: ${approval.id}`),
});
const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: process.argv[2] ?? "" }];
while (messages.at(-1)?.role !== "assistant") {
  const { choices } = await new OpenAI().chat.completions.create({ model, messages, tools });
  messages.push(...choices.map(({ message }) => message));
  messages.push(...(await answer(messages)));
}
console.log(messages.at(-1)?.content);
