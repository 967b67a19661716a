import { z } from "zod";
import { ANSWER_CHARACTERS_MAX } from "../../approvals/answer.ts";
import type { ReceiptedApprovals } from "../../approvals/receipts/receipts.ts";
import type { Approval, Decided } from "../../approvals/types.ts";
import { Refusal } from "../../core/errors.ts";
import type { CallerContext, Json } from "../../core/types.ts";
import { json } from "../answers.ts";
import { decisionRefusal, inStore, isId, iso, lackingText, REASON_CHARACTERS_MAX, rightsOf } from "../approval-json.ts";
import { type Endpoint, type EndpointServices, endpointsWith } from "../endpoint.ts";
import { record } from "../guard.ts";
import { parseBody } from "../request-guard.ts";
import { decide } from "./approvals.ts";

/** What these endpoints need of the service. */
export interface RpcPart {
  readonly approvals: ReceiptedApprovals;
}

const { endpoint } = endpointsWith<RpcPart>();

type RpcServices = EndpointServices & RpcPart;

/** Error codes of JSON-RPC 2.0. */
const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;
const METHOD_NOT_FOUND = -32_601;
const INVALID_PARAMS = -32_602;

/** Only the newest approvals are listed. */
const LISTED_MAX = 200;
const ID_CHARACTERS_MAX = 128;

const requestId = z.union([z.string().max(ID_CHARACTERS_MAX), z.number(), z.null()]);

const rpcRequest = z.strictObject({
  /** Omitted by older clients; their answers omit it, too. */
  jsonrpc: z.literal("2.0").optional(),
  id: requestId.optional(),
  method: z.string(),
  params: z.unknown().optional(),
});

const approvalId = z.string().refine(isId, "approvalId must be a UUID");

const reason = z.string().max(REASON_CHARACTERS_MAX).optional();
const approveParams = z.strictObject({
  approvalId,
  scope: z.enum(["once", "session"]).optional(),
  reason,
  answer: z.string().max(ANSWER_CHARACTERS_MAX).optional(),
});
const denyParams = z.strictObject({ approvalId, reason });
const listParams = z.strictObject({}).prefault({});

class RpcError extends Error {
  override readonly name = "RpcError";
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

type Method = (services: RpcServices, operator: CallerContext, params: unknown) => Promise<Json>;

const METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  [
    "exec.approve",
    async (services, operator, params) => {
      const { approvalId: id, ...choices } = readParams(approveParams, params);
      return resultOrThrow(await decide(services, operator, { id, decision: "approve", ...choices }));
    },
  ],
  [
    "exec.deny",
    async (services, operator, params) => {
      const { approvalId: id, reason } = readParams(denyParams, params);
      return resultOrThrow(await decide(services, operator, { id, decision: "deny", reason }));
    },
  ],
  [
    "exec.list",
    async (services, operator, params) => {
      readParams(listParams, params);
      const page = await inStore(services, () => services.approvals.list({ state: "pending", limit: LISTED_MAX }));
      await record(services, { type: "approvals.listed", sub: operator.subject, iss: operator.issuer });
      const decidable = page.approvals.filter((approval) => rightsOf(approval, operator).approve);
      return { approvals: decidable.map(listed) };
    },
  ],
]);

/**
 * JSON-RPC 2.0 for operators, with the method names that terminals use. Reports its own errors as JSON-RPC errors, but token
 * errors as HTTP errors.
 */
const rpc = endpoint({
  method: "POST",
  path: "/rpc",
  summary: "`exec.approve`, `exec.deny` and `exec.list` over JSON-RPC.",
  audience: "operators",
  permission: "approvals:decide",
  recordsForgeries: true,
  onlyWith: "`approvals`",
  bytes: rpcRequest,
  responses: { 200: {}, 204: { description: "Success; a request without an id gets no answer.", type: "none" } },
  audited: "change",
  async handle({ caller, bytes }, services) {
    const { id, jsonrpc, ...answer } = await serve(services, caller, bytes);
    if (id === undefined) return { status: 204, headers: { "cache-control": "no-store" } };
    return json(200, { jsonrpc, id, ...answer });
  },
});

export const endpoints: readonly Endpoint<RpcPart>[] = [rpc];

interface Served {
  readonly jsonrpc: "2.0" | undefined;
  readonly id: z.output<typeof requestId> | undefined;
  readonly result?: Json;
  readonly error?: { readonly code: number; readonly message: string };
}

async function serve(services: RpcServices, operator: CallerContext, bytes: Uint8Array): Promise<Served> {
  let id: Served["id"] = null;
  let jsonrpc: Served["jsonrpc"] = "2.0";
  try {
    const call = readRequest(services, bytes);
    ({ id, jsonrpc } = call);
    const method = METHODS.get(call.method);
    if (method === undefined) throw new RpcError(METHOD_NOT_FOUND, "there is no such method");
    return { id, jsonrpc, result: await method(services, operator, call.params) };
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    return { id, jsonrpc, error: { code: error.code, message: error.message } };
  }
}

/** @throws {RpcError} parse error, invalid request */
function readRequest(services: RpcServices, bytes: Uint8Array): z.output<typeof rpcRequest> {
  const parsed = rpcRequest.safeParse(parse(services, bytes));
  if (parsed.success) return parsed.data;
  throw new RpcError(INVALID_REQUEST, "one request {jsonrpc?, id?, method, params?} is expected");
}

function parse(services: RpcServices, bytes: Uint8Array): unknown {
  try {
    return parseBody(bytes, services);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    throw new RpcError(PARSE_ERROR, error.message);
  }
}

function readParams<T>(schema: z.ZodType<T>, params: unknown): T {
  const parsed = schema.safeParse(params);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new RpcError(INVALID_PARAMS, issue?.path[0] === "approvalId" ? "approvalId must be a UUID" : "invalid params");
}

function resultOrThrow(decided: Decided): Json {
  switch (decided.outcome) {
    case "decided":
      return { ok: true };
    case "counted":
      return { ok: true, state: "pending", missing: lackingText(decided.lacking) };
    case "scope_not_offered":
      throw new RpcError(INVALID_PARAMS, "this approval request does not offer that scope");
    case "reason_missing":
      throw new RpcError(INVALID_PARAMS, "reason: a policy requires one");
    case "answer_refused":
    case "not_eligible":
    case "later_stage":
    case "already_voted":
      throw new RpcError(INVALID_PARAMS, decisionRefusal(decided).message);
    case "not_pending":
    case "own_question":
    case "replayed":
    case "stale_view":
    case "grant_refused":
    case "vouch_refused":
      throw new RpcError(INVALID_PARAMS, "approval not found or already resolved");
  }
}

function listed({ id, summary, tool, decideBy, view }: Approval): Json {
  const { command, workingDir } = isMembers(view) ? view : {};
  return {
    approvalId: id,
    ...(command !== undefined && { command }),
    ...(workingDir !== undefined && { workingDir }),
    summary,
    tool,
    decideBy: iso(decideBy),
  };
}

function isMembers(view: Json): view is { readonly [key: string]: Json } {
  return typeof view === "object" && view !== null && !Array.isArray(view);
}
