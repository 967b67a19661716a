import { z } from "zod";
import { Refusal } from "../../../src/core/errors.ts";
import type { Binding, HttpTarget, RunContext, Tool, ToolClassification } from "../../../src/core/types.ts";
import { RESILIENCE_DEFAULTS } from "../../../src/egress/resilience.ts";
import { type HttpHandler, type HttpSystem, httpHandler } from "../../../src/targets/http/handler.ts";

/** A configured system at a port of this host. */
export function httpSystem(port: number, changes: Partial<HttpSystem> = {}): HttpSystem {
  return {
    baseUrl: new URL(`http://api.test:${port}/v1`),
    addresses: { classes: ["loopback"] },
    tls: undefined,
    headers: {},
    answerBytesMax: 10_000,
    resilience: RESILIENCE_DEFAULTS,
    isAsserted: true,
    ...changes,
  };
}

export function handlerOf(system: HttpSystem, more: Partial<Parameters<typeof httpHandler>[0]> = {}): HttpHandler {
  const resolve = async (): Promise<readonly string[]> => ["127.0.0.1"];
  return httpHandler({ systems: new Map([["api", system]]), random: () => 0, now: Date.now, resolve, ...more });
}

export interface ApiToolOptions extends Partial<HttpTarget["http"]> {
  readonly input?: z.ZodObject;
  readonly output?: z.ZodType;
  readonly classification?: ToolClassification;
  readonly idempotent?: boolean;
  readonly errors?: Tool["errors"];
}

/** Returns a tool for one request, in the form that `defineTool` returns. */
export function apiTool(options: ApiToolOptions = {}): Tool {
  const { input, output, classification = "read", idempotent = false, errors = "withheld", ...http } = options;
  return {
    name: "api_tool",
    title: "API tool",
    description: "A tool of the API",
    version: "1",
    classification,
    category: classification === "read" ? "read" : "network",
    permissions: { required: ["api:use"] },
    input: input ?? z.object({}),
    output: output ?? z.unknown(),
    outputPolicy: {},
    inputPolicy: {},
    scan: {},
    approval: {},
    errors,
    target: { system: "api", http: { method: "GET", path: "/x", ...http } },
    timeoutMs: 10_000,
    limits: { outputBytesMax: 8_000_000, concurrentCallsMax: 1_000 },
    idempotent,
    additive: false,
    examples: { accepts: [], rejects: [] },
  };
}

export const TRACE_ID = "0190b0a0-0000-7000-8000-000000000001";

export function runContext(changes: Partial<RunContext> = {}): RunContext {
  return {
    signal: AbortSignal.timeout(20_000),
    deadline: 4_000_000_000_000,
    traceId: TRACE_ID,
    traceparent: undefined,
    caller: { issuer: "https://idp.test", subject: "agent-7", permissions: [], actors: ["helper"], expiresAt: 0 },
    ...changes,
  };
}

export async function call(
  binding: Binding,
  input: unknown = {},
  context: RunContext = runContext(),
): Promise<unknown> {
  return binding.run(await binding.plan(input, { signal: context.signal }), context);
}

/** Returns the refusal; fails when there is none. */
export async function refusal(work: () => unknown): Promise<Refusal> {
  try {
    throw new Error(`answered ${JSON.stringify(await work())}`);
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
}

/** An answer with a body and its length. */
export function answer(status: number, body = "", headers: Readonly<Record<string, string>> = {}): string {
  const all = { "content-length": String(Buffer.byteLength(body)), ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} X\r\n${lines.join("")}\r\n${Buffer.from(body).toString("latin1")}`;
}

export function json(value: unknown, status = 200): string {
  return answer(status, JSON.stringify(value), { "content-type": "application/json" });
}
