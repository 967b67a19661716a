import { ToolMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import { StructuredTool, ToolInputParsingException } from "@langchain/core/tools";
import type { SafeToolCallClient } from "../client.ts";
import { type AdapterOptions, ModelCalls, type OfferedTool, offeredTools } from "./core.ts";

/**
 * Reads the caller's tools, for LangChain's agents and LangGraph. With `onPending: "return"` in a graph with a checkpointer, a
 * call that asks a person interrupts the graph; whatever the graph is resumed with, the call then waits for the service's approver.
 */
export async function langchainTools(client: SafeToolCallClient, options?: AdapterOptions): Promise<StructuredTool[]> {
  const calls = new ModelCalls(client, options);
  return (await offeredTools(client, options)).map((offered) => new ServiceTool(calls, offered));
}

interface ToolCallConfig extends RunnableConfig {
  readonly toolCall?: { readonly id?: string };
}

class ServiceTool extends StructuredTool {
  readonly name: string;
  readonly description: string;
  readonly schema: StructuredTool["schema"];
  readonly #calls: ModelCalls;

  constructor(calls: ModelCalls, { name, description, schema }: OfferedTool) {
    super();
    this.#calls = calls;
    this.name = name;
    this.description = description;
    this.schema = { ...schema, properties: { ...schema.properties } };
  }

  /** Arguments that do not fit the schema go to the service too: its refusal names the field and the allowed values. */
  override async call(...[args, config, tags]: Parameters<StructuredTool["call"]>): ReturnType<StructuredTool["call"]> {
    try {
      return await super.call(args, config, tags);
    } catch (error) {
      if (!(error instanceof ToolInputParsingException)) throw error;
      return this.#make(args, Array.isArray(config) ? {} : { ...config });
    }
  }

  protected async _call(args: unknown, _manager: unknown, config: ToolCallConfig = {}): Promise<ToolMessage | string> {
    return this.#make(args, config);
  }

  async #make(args: unknown, { toolCall, configurable = {}, signal }: ToolCallConfig): Promise<ToolMessage | string> {
    const { name } = this;
    const id = toolCall?.id;
    const { thread_id: thread, checkpoint_ns: task, __pregel_checkpointer: checkpointer } = configurable;
    // A graph runs a task again after an interruption, with all its calls: this key finds their answers.
    const idempotencyKey = task === undefined ? undefined : await digestOf([thread, task, id, name, args]);
    const call = { name, args, id, signal, idempotencyKey };
    let result = await this.#calls.make(call);
    if (result.pending !== undefined && this.#calls.interrupts && checkpointer !== undefined) {
      const { interrupt } = await import("@langchain/langgraph");
      interrupt(result.pending);
      result = await this.#calls.make({ ...call, onPending: () => undefined });
    }
    const { text, isError } = result;
    return id === undefined
      ? text
      : new ToolMessage({ name, content: text, tool_call_id: id, status: isError ? "error" : "success" });
  }
}

async function digestOf(value: unknown): Promise<string> {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(value)));
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
