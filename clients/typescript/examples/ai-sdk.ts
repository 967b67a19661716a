/** AI SDK: `STC_URL=… STC_TOKEN=… MODEL_URL=… MODEL_KEY=… bun ai-sdk.ts "What shall be done?"` */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs } from "ai";
import { SafeToolCallClient } from "safe-tool-call-client";
import { aiTools } from "safe-tool-call-client/ai-sdk";

const { STC_URL: url = "", STC_TOKEN: token = "", MODEL: name = "gpt-5" } = process.env;
const { MODEL_URL: baseURL = "https://api.openai.com/v1", MODEL_KEY: apiKey = "" } = process.env;
const model = createOpenAICompatible({ name: "model", baseURL, apiKey })(name);
const client = new SafeToolCallClient({ url, token });

// The agent.
const { tools } = await aiTools(client, { onPending: ({ approval }) => console.error(`waiting: ${approval.id}`) });
const { text } = await generateText({ model, tools, prompt: process.argv[2] ?? "", stopWhen: stepCountIs(20) });
console.log(text);
