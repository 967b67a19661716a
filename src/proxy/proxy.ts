import { Refusal } from "../core/errors.ts";
import type { Receipt, Released } from "../core/evidence.ts";
import type { Admission } from "./admission.ts";
import { type Answer, refused, succeeded, unrecorded } from "./answer.ts";
import { approve } from "./approval-gate.ts";
import type { Departure } from "./call-scope.ts";
import type { CallerContext } from "./caller-context.ts";
import type { Executor } from "./executor.ts";
import { release } from "./output-filter.ts";
import { authorize, elevate } from "./permission-engine.ts";
import { makePlan } from "./planner.ts";
import type { Registry } from "./registry.ts";
import { parseInput } from "./schema-validator.ts";
import type { Trail, Trails } from "./trail.ts";

/** One request to run a tool, as it came through a door. Nothing in it is believed yet. */
export interface CallRequest {
  readonly tool: string;
  readonly args: unknown;
  /** The value of the `Authorization` header; the only place a token is looked for. */
  readonly authorization: string | undefined;
  readonly session?: string | undefined;
  readonly callId?: string | undefined;
  readonly reason?: string | undefined;
  /** W3C trace context; the door has checked its form. */
  readonly traceparent?: string | undefined;
  /** Where the request came from: a peer address, or the name of the door. */
  readonly source: string;
  /** The body as it came, when the door had one to read; hashed when it is not a call. */
  readonly body?: Uint8Array | undefined;
  /** Tells when the client is gone. */
  readonly departure?: Departure | undefined;
}

export interface ProxyParts {
  readonly registry: Registry;
  readonly callers: CallerContext;
  readonly admission: Admission;
  readonly executor: Executor;
  readonly trails: Trails;
}

export interface ToolProxy {
  call(request: CallRequest): Promise<Answer>;
  /** For a request that a door refuses before it could become a call: it leaves its line in the audit all the same. */
  turnAway(request: CallRequest, refusal: Refusal): Promise<Answer>;
}

/** Every call ends here: in an answer, and in one line of the audit that was on disk before the answer. */
export function createProxy(parts: ProxyParts): ToolProxy {
  return {
    async call(request) {
      const trail = parts.trails.start(request);
      const ending = await decide(parts, request, trail).catch(asRefusal);
      return conclude(trail, ending);
    },
    async turnAway(request, refusal) {
      const trail = parts.trails.start(request);
      await trail.identify(() => parts.callers.verify(request.authorization, "agents"));
      return conclude(trail, refusal);
    },
  };
}

/** The road. Each step takes what the previous one earned; a step left out does not compile. */
async function decide(parts: ProxyParts, request: CallRequest, trail: Trail): Promise<Released> {
  const { registry, callers, admission, executor } = parts;

  const found = trail.at("REGISTRY", () => registry.find(request.tool));
  const verified = trail.keep(await trail.at("AUTH", () => callers.verify(request.authorization, "agents")));
  const admitted = trail.at("LIMIT", () => admission.admit(verified));
  trail.atEnd(() => admission.leave(admitted));
  const known = trail.at("REGISTRY", () => registry.known(found, admitted));
  const authorized = trail.at("PERMISSION", () => authorize(known));
  const parsed = trail.at("VALIDATION", () => parseInput(authorized, request.args));
  const elevated = trail.at("PERMISSION", () => elevate(parsed));
  const scope = trail.openScope(elevated.tool.timeoutMs);
  const planned = trail.keep(await trail.at("PLAN", () => makePlan(elevated, scope)));
  const approved = trail.at("APPROVAL", () => approve(planned));
  const executed = await trail.at("EXECUTION", () => executor.execute(approved, trail.execution(scope)));
  return trail.at("OUTPUT", () => release(executed));
}

/** No receipt, no reply. */
async function conclude(trail: Trail, ending: Released | Refusal): Promise<Answer> {
  let receipt: Receipt;
  try {
    receipt = await trail.close(ending);
  } catch (error) {
    return unrecorded(trail, error);
  }
  return ending instanceof Refusal ? refused(receipt, ending, trail) : succeeded(receipt, ending, trail);
}

/** Whatever is not a refusal is our own fault, and says nothing about itself to the agent. */
function asRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  return new Refusal("INTERNAL", "The call failed inside the service. Quote the trace id to its operators.", {
    cause: error,
  });
}
