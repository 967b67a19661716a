import { dynamicTool, jsonSchema, type ModelMessage, type Tool, type ToolApprovalStatus } from "ai";
import type { SafeToolCallClient } from "../client.ts";
import { type AdapterOptions, ModelCalls, offeredTools, type PendingCall } from "./core.ts";

/** The caller's tools for the AI SDK: for `generateText`, `streamText` and agents. */
export interface AiTools {
  readonly tools: Record<string, Tool<unknown, unknown>>;
  /**
   * For the setting of the same name, with `onPending: "return"`: a call that asks a person becomes an approval request of the
   * SDK, whose `reason` names the service's approval. After an approval response, the call is made again, and waits for the
   * service's approver.
   */
  readonly toolApproval: Record<string, (args: unknown, call: MadeCall) => Promise<ToolApprovalStatus>>;
}

interface MadeCall {
  readonly toolCallId: string;
  readonly messages: readonly ModelMessage[];
}

/** Reads the caller's tools, for the AI SDK. */
export async function aiTools(client: SafeToolCallClient, options?: AdapterOptions): Promise<AiTools> {
  const calls = new ModelCalls(client, options);
  const tools: AiTools["tools"] = {};
  const toolApproval: AiTools["toolApproval"] = {};
  for (const { name, description, schema } of await offeredTools(client, options)) {
    tools[name] = dynamicTool({
      description,
      inputSchema: jsonSchema({ ...schema, properties: { ...schema.properties } }),
      async execute(args, { toolCallId: id, messages, abortSignal: signal }) {
        const request = calls.interrupts ? requestOf(id, messages) : undefined;
        const again = request !== undefined && {
          resumed: true,
          approvalId: request.approvalId,
          onPending: () => undefined,
        };
        return (await calls.make({ name, args, id, signal, ...again })).content;
      },
      toModelOutput: ({ output }) => {
        const isError = typeof output === "object" && output !== null && "error" in output;
        return { type: isError ? "error-text" : "text", value: JSON.stringify(output) };
      },
    });
    toolApproval[name] = async (args, { toolCallId: id, messages }) => {
      if (!calls.interrupts || requestOf(id, messages) !== undefined) return "not-applicable";
      const pending = await calls.ask({ name, args, id });
      return pending === undefined ? "not-applicable" : { type: "user-approval", reason: reasonOf(pending) };
    };
  }
  return { tools, toolApproval };
}

function reasonOf({ approval: { id, message } }: PendingCall): string {
  return `Approval ${id}: ${message}`;
}

/** Returns the SDK's approval request for a call, if there was one; `approvalId` is the service's. */
function requestOf(
  toolCallId: string,
  messages: readonly ModelMessage[],
): { readonly approvalId?: string } | undefined {
  const parts = messages.flatMap(({ role, content }) =>
    role === "assistant" && typeof content !== "string" ? content : [],
  );
  const request = parts.findLast((part) => part.type === "tool-approval-request" && part.toolCallId === toolCallId);
  if (request?.type !== "tool-approval-request") return undefined;
  const [, approvalId] = /^Approval (\S+): /.exec(request.reason ?? "") ?? [];
  return approvalId === undefined ? {} : { approvalId };
}
