import { z } from "zod";
import type { RunContext, Tool, ToolClassification } from "../../../../src/core/types.ts";

export interface ToolOptions {
  readonly method: string;
  readonly input?: z.ZodObject;
  readonly classification?: ToolClassification;
  readonly idempotent?: boolean;
  readonly service?: string;
  readonly package?: string;
  readonly system?: string;
  readonly outputBytesMax?: number;
  readonly accepts?: readonly unknown[];
  readonly output?: z.ZodType;
  readonly stream?: { readonly itemsMax: number; readonly bytesMax: number };
}

/** Returns a tool for one method of the lab, in the form that `defineTool` returns. */
export function labTool(options: ToolOptions): Tool {
  const { classification = "read", service = "Lab", system = "lab" } = options;
  return {
    name: "lab_tool",
    title: "Lab tool",
    description: "A tool of the lab",
    version: "1",
    classification,
    category: classification === "read" ? "read" : "network",
    permissions: { required: ["lab:use"] },
    input: options.input ?? z.object({}),
    output: options.output ?? z.unknown(),
    outputPolicy: {},
    inputPolicy: {},
    scan: {},
    approval: {},
    errors: "withheld",
    target: {
      system,
      grpc: {
        package: options.package ?? "lab.v1",
        service,
        method: options.method,
        ...(options.stream !== undefined && { stream: options.stream }),
      },
    },
    timeoutMs: 10_000,
    limits: { outputBytesMax: options.outputBytesMax ?? 8_000_000, concurrentCallsMax: 1_000 },
    idempotent: options.idempotent ?? false,
    additive: false,
    examples: { accepts: options.accepts ?? [], rejects: [] },
  };
}

/** Later than any test runs: only its signal or its answer ends a call. */
export const FAR_DEADLINE = 4_000_000_000_000;

export function runContext(changes: Partial<RunContext> = {}): RunContext {
  return {
    signal: new AbortController().signal,
    deadline: FAR_DEADLINE,
    traceId: "0190b0a0-0000-7000-8000-000000000001",
    traceparent: undefined,
    caller: { issuer: "https://idp.test", subject: "agent-7", permissions: [], actors: [], expiresAt: 0 },
    ...changes,
  };
}
