import type { Category } from "../core/types.ts";
import type { ApprovalCallback, ToolApprovalResult, ToolUse } from "./callback.ts";

/** An approval request on a message bus. */
export interface ToolApprovalRequest {
  readonly toolUse: Pick<ToolUse, "name" | "params" | "callId"> & Partial<ToolUse>;
  readonly category: Category;
  readonly sessionId: string | undefined;
}

export type ToolApprovalHandler = (request: ToolApprovalRequest) => ToolApprovalResult | Promise<ToolApprovalResult>;

type Topic = "toolApproval";

/** Passes approval requests on to the handler that another part of the program has registered. */
export class MessageBus {
  readonly #handlers = new Map<Topic, ToolApprovalHandler>();

  /** Replaces the handler that was registered before. */
  registerHandler(topic: Topic, handler: ToolApprovalHandler): void {
    this.#handlers.set(topic, handler);
  }

  /** Returns the handler's decision: a denial when none is registered. Rejects when the handler throws. */
  async request(topic: Topic, request: ToolApprovalRequest): Promise<ToolApprovalResult> {
    const handler = this.#handlers.get(topic);
    return handler?.(request) ?? { approved: false, denyReason: `no handler is registered for ${topic}` };
  }

  /** Callback to pass as `onToolApprove`. */
  readonly onToolApprove: ApprovalCallback = (toolUse) => {
    const { category, sessionId } = toolUse;
    return this.request("toolApproval", { toolUse, category, sessionId });
  };
}
