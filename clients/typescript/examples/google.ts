/** Google's generateContent: `STC_URL=… STC_TOKEN=… GEMINI_API_KEY=… bun google.ts "What shall be done?"` */
import { type Content, GoogleGenAI, type Part } from "@google/genai";
import { SafeToolCallClient } from "safe-tool-call-client";
import { googleTools } from "safe-tool-call-client/google";

const { STC_URL: url = "", STC_TOKEN: token = "", MODEL: model = "gemini-2.5-pro" } = process.env;
const { GEMINI_API_KEY: apiKey = "", GEMINI_URL: baseUrl = "https://generativelanguage.googleapis.com" } = process.env;
const { models } = new GoogleGenAI({ apiKey, httpOptions: { baseUrl } });
const client = new SafeToolCallClient({ url, token });

// The agent.
const { tools, answer } = await googleTools(client, {
  onPending: ({ approval }) => console.error(`waiting: ${approval.id}`),
});
const contents: Content[] = [];
for (let parts: Part[] = [{ text: process.argv[2] ?? "" }]; parts.length > 0; parts = await answer(contents)) {
  contents.push({ role: "user", parts });
  const { candidates, text = "" } = await models.generateContent({ model, contents, config: { tools } });
  contents.push(...(candidates ?? []).flatMap(({ content = [] }) => content));
  process.stdout.write(text);
}
