/** Responses: `STC_URL=… STC_TOKEN=… OPENAI_API_KEY=… bun openai-responses.ts "What shall be done?"` */
import OpenAI from "openai";
import { SafeToolCallClient } from "safe-tool-call-client";
import { responsesTools } from "safe-tool-call-client/openai";

const { STC_URL: url = "", STC_TOKEN: token = "", MODEL: model = "gpt-5" } = process.env;
const client = new SafeToolCallClient({ url, token });

// The agent.
const { tools, answer } = await responsesTools(client, {
  onPending: ({ approval }) => console.error(`waiting: ${approval.id}`),
});
const openai = new OpenAI();
let response = await openai.responses.create({ model, tools, input: process.argv[2] ?? "" });
for (let input = await answer(response.output); input.length > 0; input = await answer(response.output)) {
  response = await openai.responses.create({ model, tools, input, previous_response_id: response.id });
}
console.log(response.output_text);
