import { asString, isTable } from "../core/json.ts";
import type { CallerContext } from "../core/types.ts";
import type { EndpointServices, Exchange } from "../http/endpoint.ts";
import { HttpCall, readIdempotencyKey, readTraceparent, readTracestate } from "../http/routes/call.ts";
import type { CallProtocol } from "../pipeline/call-request.ts";
import type { McpServices } from "./part.ts";
import { invalid, type RequestId, type RpcRequest, statedVersion, type Table } from "./protocol.ts";
import type { DueTask } from "./tasks.ts";
import { APPROVAL_META, DRY_RUN_META } from "./tools.ts";

const ID = /^[\x21-\x7e]{1,128}$/;
const IDEMPOTENCY_META = "safe-tool-call/idempotencyKey";

type Resumed = DueTask["call"] & Pick<DueTask, "approvalId">;

/** A call over MCP. Its protocol version and client are known once the message is read. */
export class ToolCall extends HttpCall {
  #isTask = false;
  protocol: CallProtocol;
  resultBytesMax: number;

  constructor(exchange: Exchange, { mcp }: McpServices) {
    super(exchange, "/mcp");
    this.protocol = { name: "mcp", version: statedVersion(exchange.raw.headers["mcp-protocol-version"]) };
    this.resultBytesMax = mcp.resultBytesMax;
  }

  /** A task's call goes on when the client of its poll disconnects: a later poll gets the answer. */
  override get disconnect(): Exchange | undefined {
    return this.#isTask ? undefined : this.exchange;
  }

  /** Becomes the call that a task keeps. */
  resume({ version, client }: RpcRequest, { tool, args, idempotencyKey, approvalId }: Resumed): void {
    this.protocol = { name: "mcp", version, client };
    this.tool = tool;
    this.args = args;
    this.idempotencyKey = idempotencyKey;
    this.approvalId = approvalId;
    this.#isTask = true;
  }

  /** @throws {RpcError} for malformed parameters; the requested tool name is kept even then */
  fill({ id, params, meta, version, client }: RpcRequest): void {
    this.protocol = { name: "mcp", version, client };
    const { name, arguments: args = {} } = params;
    if (typeof name === "string") this.tool = name;
    if (typeof name !== "string" || name === "") throw invalid(id, "name must be the name of a tool");
    if (!isTable(args)) throw invalid(id, "arguments must be an object");
    this.args = args;
    this.approvalId = approvalIn(meta, id);
    this.idempotencyKey = idempotencyKeyIn(this.exchange, meta, id);
    this.newApproval = meta[APPROVAL_META] === "new";
    this.dryRun = dryRunIn(meta, id);
    if (this.traceparent !== undefined) return;
    this.traceparent = readTraceparent(asString(meta["traceparent"]));
    this.tracestate = this.traceparent === undefined ? undefined : readTracestate(asString(meta["tracestate"]));
  }
}

/** Returns the verified caller of a request. @throws {Refusal} */
export async function callerOf(
  { authorization, certificate }: Pick<ToolCall, "authorization" | "certificate">,
  { callers }: EndpointServices,
): Promise<CallerContext> {
  const known = callers.recall(authorization, "agents", certificate);
  return (known ?? (await callers.verify(authorization, "agents", certificate))).caller;
}

function approvalIn({ [APPROVAL_META]: approval }: Table, id: RequestId): string | undefined {
  if (approval === undefined || approval === "new") return undefined;
  const keys = isTable(approval) ? Object.keys(approval).sort().join() : "";
  // Some clients (OpenAI Agents SDK for Python) send a tool's `_meta` of the list with each call: it says nothing about the call.
  if (isTable(approval) && "asks" in approval && !("id" in approval)) return undefined;
  const named = isTable(approval) && keys === "id" ? approval["id"] : undefined;
  if (typeof named === "string" && ID.test(named)) return named;
  throw invalid(id, `_meta["${APPROVAL_META}"] must be {id} or "new"`);
}

function dryRunIn({ [DRY_RUN_META]: dryRun = false }: Table, id: RequestId): boolean {
  if (typeof dryRun === "boolean") return dryRun;
  throw invalid(id, `_meta["${DRY_RUN_META}"] must be true or false`);
}

function idempotencyKeyIn({ raw }: Exchange, { [IDEMPOTENCY_META]: key }: Table, id: RequestId): string | undefined {
  const { "idempotency-key": header } = raw.headers;
  if (header !== undefined && key !== undefined && header !== key) {
    throw invalid(id, `_meta["${IDEMPOTENCY_META}"] and the header Idempotency-Key differ`);
  }
  try {
    return readIdempotencyKey({ "idempotency-key": header ?? (key as string | undefined) });
  } catch {
    throw invalid(id, `_meta["${IDEMPOTENCY_META}"] must have 1 to 255 visible ASCII characters`);
  }
}
