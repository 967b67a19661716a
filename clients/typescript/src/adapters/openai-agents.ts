import { type FunctionTool, type RunContext, tool } from "@openai/agents";
import type { ObjectSchema, SafeToolCallClient } from "../client.ts";
import { type AdapterOptions, type ModelCall, ModelCalls, offeredTools } from "./core.ts";

/**
 * Reads the caller's tools, for an `Agent` of the OpenAI Agents SDK. With `onPending: "return"`, a call that asks a person
 * interrupts the run; `state.approve(interruption)` and a new run make it again, once the service's approver has decided.
 */
export async function agentTools<Context = unknown>(
  client: SafeToolCallClient,
  options?: AdapterOptions,
): Promise<FunctionTool<Context, AgentSchema>[]> {
  const calls = new ModelCalls(client, options);
  const isAsking = async (context: RunContext<unknown>, call: ModelCall) =>
    isDecided(context, call) || (await calls.ask(call)) !== undefined;
  return (await offeredTools(client, options)).map(({ name, description, schema }) =>
    tool<AgentSchema, Context>({
      ...{ name, description, strict: false, parameters: agentSchema(schema) },
      // The SDK asks for an approval of arguments that are not JSON wherever this is a function.
      needsApproval: calls.interrupts && ((context, args: unknown, id) => isAsking(context, { name, args, id })),
      async execute(args: unknown, context, details) {
        const id = details?.toolCall?.callId;
        const resumed = calls.interrupts && context !== undefined && isDecided(context, { name, id });
        // The run was interrupted for this call before: now it waits.
        const onPending = resumed ? () => undefined : undefined;
        return (await calls.make({ name, args, id, signal: details?.signal, resumed, onPending })).text;
      },
    }),
  );
}

/** Returns whether the program has approved or rejected the interruption of this call. */
function isDecided(context: RunContext<unknown>, { name, id }: Pick<ModelCall, "name" | "id">): boolean {
  return id !== undefined && context.isToolApproved({ toolName: name, callId: id }) !== undefined;
}

type AgentSchema = Extract<FunctionTool["parameters"], { additionalProperties: true }>;

/** The SDK's type of schemas that are not strict does not know `additionalProperties: false`, which the service's schemas have. */
function agentSchema({ properties = {}, required = [], ...others }: ObjectSchema): AgentSchema {
  const schema: Omit<AgentSchema, "additionalProperties"> = { ...others, properties, required: [...required] };
  return schema as AgentSchema;
}
