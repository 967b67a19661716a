/** LangChain: `STC_URL=… STC_TOKEN=… OPENAI_API_KEY=… bun langchain.ts "What shall be done?"` */
import { Command, type Interrupt, MemorySaver } from "@langchain/langgraph";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent } from "langchain";
import { SafeToolCallClient } from "safe-tool-call-client";
import { langchainTools } from "safe-tool-call-client/langchain";

const { STC_URL: url = "", STC_TOKEN: token = "", MODEL: model = "gpt-5" } = process.env;
const client = new SafeToolCallClient({ url, token });

// The agent. The checkpointer keeps its state while it waits for approvers.
const tools = await langchainTools(client, { onPending: "return" });
const agent = createAgent({ model: new ChatOpenAI({ model }), tools, checkpointer: new MemorySaver() });
const thread = { configurable: { thread_id: crypto.randomUUID() } };
let state: { messages: { text: string }[]; __interrupt__?: Interrupt[] };
state = await agent.invoke({ messages: [{ role: "user", content: process.argv[2] ?? "" }] }, thread);
for (let waiting = state.__interrupt__; waiting?.length; waiting = state.__interrupt__) {
  console.error("waiting:", JSON.stringify(waiting));
  state = await agent.invoke(new Command({ resume: Object.fromEntries(waiting.map(({ id }) => [id, true])) }), thread);
}
console.log(state.messages.at(-1)?.text);
