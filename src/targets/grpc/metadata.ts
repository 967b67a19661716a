import { Metadata } from "@grpc/grpc-js";
import { StartupError } from "../../core/errors.ts";
import { parseTracestate } from "../../core/tracing.ts";
import type { CallerContext, RunContext } from "../../core/types.ts";

const KEY = /^[a-z0-9_.-]{1,64}$/;
const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Keys that only the proxy sets, so that services can trust them. */
const OWN_KEYS: ReadonlySet<string> = new Set(
  ["x-caller-sub", "x-caller-iss", "x-caller-assertion", "x-tool", "x-trace-id", "traceparent", "tracestate"].flatMap(
    (key) => [key, `${key}-bin`],
  ),
);

/** Returns true for printable ASCII without spaces at its ends, which HTTP would remove. */
function isPlain(value: string): boolean {
  if (value === "" || value.startsWith(" ") || value.endsWith(" ")) return false;
  for (let at = 0; at < value.length; at += 1) {
    const code = value.charCodeAt(at);
    if (code < 0x20 || code > 0x7e) return false;
  }
  return true;
}

/**
 * Returns the fixed metadata of a system.
 *
 * @throws {StartupError} for a key or value that gRPC cannot carry, or a key that the proxy sets
 */
export function systemMetadata(system: string, entries: Readonly<Record<string, string>> = {}): Metadata {
  const metadata = new Metadata();
  const problems: string[] = [];
  for (const [name, value] of Object.entries(entries)) {
    const key = name.toLowerCase();
    const field = `systems.${system}.metadata.${name}`;
    if (!KEY.test(key) || key.startsWith("grpc-") || key.endsWith("-bin"))
      problems.push(`${field}: is not a usable key`);
    else if (OWN_KEYS.has(key)) problems.push(`${field}: is set by the proxy itself`);
    else if (!isPlain(value)) problems.push(`${field}: must be printable ASCII`);
    else metadata.set(key, value);
  }
  if (problems.length > 0) throw new StartupError(problems);
  return metadata;
}

/** Sets a key; values that a header cannot contain go into the binary key of the same name, as UTF-8. */
function setText(metadata: Metadata, key: string, value: string): void {
  if (isPlain(value)) metadata.set(key, value);
  else metadata.set(`${key}-bin`, Buffer.from(value, "utf8"));
}

/** Returns the sorted names. A name with `?` is sent only if the incoming request had it. */
export function metadataKeys(base: Metadata, isSigned: boolean): readonly string[] {
  const own = ["x-caller-sub", "x-caller-iss", "x-tool", "x-trace-id", "traceparent?", "tracestate?"];
  return [...Object.keys(base.getMap()), ...own, ...(isSigned ? ["x-caller-assertion"] : [])].sort();
}

/**
 * Returns a function that builds the metadata for a call of one tool: trace, caller and tool, but never the agent's
 * token or arguments. The part that is the same for all calls of a caller is built once.
 */
export function metadataOf(base: Metadata, tool: string): (context: RunContext) => Metadata {
  const byCaller = new WeakMap<CallerContext, Metadata>();
  const callerMetadata = (caller: CallerContext): Metadata => {
    const metadata = base.clone();
    setText(metadata, "x-caller-sub", caller.subject);
    setText(metadata, "x-caller-iss", caller.issuer);
    setText(metadata, "x-tool", tool);
    byCaller.set(caller, metadata);
    return metadata;
  };
  return ({ caller, traceId, traceparent, tracestate }) => {
    const metadata = (byCaller.get(caller) ?? callerMetadata(caller)).clone();
    if (traceparent !== undefined && TRACEPARENT.test(traceparent)) {
      metadata.set("traceparent", traceparent);
      const state = parseTracestate(tracestate);
      if (state !== undefined) metadata.set("tracestate", state);
    }
    setText(metadata, "x-trace-id", traceId);
    return metadata;
  };
}
