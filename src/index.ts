export type { DiffHunk } from "./core/diff-hunk.ts";

/** The public API, for authors of manifests and for programs that embed the library. Nothing else is public. */

import { createDefineTool } from "./core/define-tool.ts";
import { DETECTOR } from "./detection/sensitive.ts";
import { MODULES } from "./modules.ts";
import { providePackage } from "./runtime/manifests/package-exports.ts";
import type { Modules } from "./runtime/module-types.ts";
import { EmbeddedProxy, type SafeToolCallOptions } from "./runtime/safe-tool-call.ts";

export { ApprovalCache, type AskedCall } from "./approvals/approval-cache.ts";
export type { ApprovalCallback, ToolApprovalResult, ToolUse } from "./approvals/callback.ts";
export {
  ApprovalManager,
  type ApprovalManagerOptions,
  type ApprovalRequest,
  DeniedError,
} from "./approvals/callback.ts";
export { MessageBus, type ToolApprovalHandler, type ToolApprovalRequest } from "./approvals/message-bus.ts";
export {
  type AcceptedDecision,
  type DecisionOptions,
  type DecisionVerifier,
  type ExtractedDecisions,
  extractApprovalDecisions,
  type RejectedDecision,
} from "./approvals/messages/decisions.ts";
export { type MessageFormat, MessageFormatError } from "./approvals/messages/message-format.ts";
export {
  assertNoClientTools,
  type DroppedCall,
  type JudgedOutput,
  prepareMessagesForLLM,
} from "./approvals/messages/model-messages.ts";
export {
  type Resumed,
  type ResumedCall,
  type ResumedCallOptions,
  type ResumeOptions,
  resumeFromMessages,
  type ToolCaller,
} from "./approvals/messages/resume.ts";
export {
  type AnthropicCallMessage,
  type AnthropicResultMessage,
  type ApprovalRequestOptions,
  type CallMessages,
  type ChatAnswer,
  type FinalResult,
  type GoogleCallMessage,
  type GoogleResultMessage,
  type ModelCall,
  type OpenAiCallMessage,
  type OpenAiResultMessage,
  type ResultMessages,
  toApprovalRequestMessage,
  toApprovalResultMessage,
  toToolResultMessage,
} from "./approvals/messages/written.ts";
export {
  createReceiptVerifier,
  type ReceiptCheck,
  type ReceiptFault,
  type ReceiptVerifier,
  type ReceiptVerifierOptions,
} from "./approvals/receipts/receipt-verifier.ts";
export {
  createReceiptSigner,
  type DecisionReceipt,
  type ReceiptSigner,
  type ReceiptSignerOptions,
} from "./approvals/receipts/receipts.ts";
export type { Approval, Decided, Decision, Grant } from "./approvals/types.ts";
export type { AuditEntry } from "./audit/entry.ts";
export {
  ApprovalDeniedError,
  ApprovalRequiredError,
  ApprovalRequiredError as ApprovalRequiredException,
  AuditError,
  AuthenticationError,
  type DryRun,
  ExecutionError,
  type Failure,
  LimitError,
  OutputError,
  type Pending,
  PermissionDeniedError,
  RequestError,
  type Success,
  ToolCallError,
  type ToolCallResult,
  type ToolError,
  type ToolFailure,
  ToolNotFoundError,
  type ToolResult,
  toToolResult,
  unwrap,
  ValidationError,
} from "./core/call-result.ts";
export type {
  DefinedTool,
  DefineTool,
  InputOf,
  OutputOf,
  ToolDefinition,
  ToolFactory,
} from "./core/define-tool.ts";
export { type Fault, ManifestError, StartupError } from "./core/errors.ts";
export type { ScanLevel, ScanPolicy } from "./core/output-policy/scan-policy.ts";
export type { PolicyDecision, PolicyPoint, PolicyRequests } from "./core/policy-point.ts";
export type { RefusalCode, Stage } from "./core/refusals.ts";
export { freeText } from "./core/schema/bounds.ts";
export type {
  ApprovalContext,
  ApprovalDecision,
  ApprovalPolicy,
  ApprovalScope,
  CallerContext,
  Category,
  CliTarget,
  ExecutionPlan,
  ExitMeaning,
  FieldAction,
  GrpcTarget,
  HttpMethod,
  HttpTarget,
  InlineContext,
  InlineTarget,
  InputPolicy,
  Json,
  Lookup,
  LookupAttempt,
  McpTarget,
  OutputFieldPolicy,
  ReasonedAllow,
  Risk,
  SqlTarget,
  StderrMeaning,
  StdoutParser,
  TargetStatus,
  Tool,
  ToolClassification,
  ToolConfig,
  ToolHandler,
  ToolLimits,
  ToolPermissions,
  ToolTarget,
} from "./core/types.ts";
export type { CallHalt } from "./halts/halt.ts";
export type {
  CallOptions,
  HaltOrder,
  Reloaded,
  SafeToolCallOptions,
  ToolFormat,
} from "./runtime/safe-tool-call.ts";
export { cliCommand } from "./targets/command/kind.ts";
export { parseJson } from "./targets/command/parser.ts";
export { parseTable } from "./targets/command/table.ts";
export {
  type DiffFile,
  type FittedLines,
  fitLines,
  type JsonLines,
  type LineBudget,
  parseJsonLines,
  parseUnifiedDiff,
  truncateText,
  type UnifiedDiff,
} from "./targets/command/unified-diff.ts";
export { grpcMethod } from "./targets/grpc/kind.ts";
export { httpRequest } from "./targets/http/kind.ts";
export { mcpTool } from "./targets/mcp/kind.ts";
export { sqlStatement } from "./targets/sql/kind.ts";
export { MODULES, type Modules };

providePackage(() => import("./index.ts"));

/** The proxy as a library: the same pipeline, audit included, without a port. */
export class SafeToolCall extends EmbeddedProxy {
  /**
   * Reads the options. Nothing is opened yet: `ready()` opens it, and the first call waits for that. `modules` adds policy points,
   * approval stores, audit exporters and token sources to the built-in ones.
   *
   * @throws {StartupError} with every mistake in the options
   */
  static create(options: SafeToolCallOptions, modules: Modules = MODULES): SafeToolCall {
    return new SafeToolCall(options, modules);
  }
}

/** Returns the text with `[REDACTED]` instead of each secret that the built-in rules find. */
export function filterSecrets(text: string): string {
  return DETECTOR.filterSecrets(text).text;
}

/** Declares a tool whose target is of one of this build's kinds. See `DefineTool`. */
export const defineTool = createDefineTool(MODULES.targetKinds);
