/** Agents SDK: `STC_URL=… STC_TOKEN=… OPENAI_API_KEY=… bun openai-agents.ts "What shall be done?"` */
import { Agent, run } from "@openai/agents";
import { SafeToolCallClient } from "safe-tool-call-client";
import { agentTools } from "safe-tool-call-client/openai-agents";

const { STC_URL: url = "", STC_TOKEN: token = "", MODEL: model = "gpt-5" } = process.env;
const client = new SafeToolCallClient({ url, token });

// The agent. Its state can be stored (`state.toString()`) while it waits for approvers.
const tools = await agentTools(client, { onPending: "return" });
const agent = new Agent({ name: "agent", model, tools });
let result = await run(agent, process.argv[2] ?? "");
while (result.interruptions.length > 0) {
  console.error(`waiting for an approval of ${result.interruptions.map(({ name }) => name).join(", ")}`);
  for (const interruption of result.interruptions) result.state.approve(interruption);
  result = await run(agent, result.state);
}
console.log(result.finalOutput);
