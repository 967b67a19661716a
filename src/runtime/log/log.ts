import { inspect } from "node:util";
import { type Logger, pino } from "pino";
import { escapeJson } from "../../audit/escape.ts";
import type { Json } from "../../core/types.ts";
import { redact } from "../../detection/redact.ts";
import { DETECTOR, type Detector } from "../../detection/sensitive.ts";
import { DescriptorSink, logDescriptor, type Sink } from "./sink.ts";

export interface Log extends Pick<Sink, "flush"> {
  readonly logger: Logger;
  dropped(): number;
}

interface LogOptions {
  readonly level: string;
  /** Number of the worker that writes; in each of its lines. */
  readonly worker?: number | undefined;
  /** Name of the tenant that the lines are about; in each of them. */
  readonly tenant?: string | undefined;
  readonly sink?: Sink | undefined;
  /** Returns the detector in use. Default: the one with the built-in rules. */
  readonly detector?: (() => Detector) | undefined;
}

/** Opens the operational log: one JSON object per line. Secrets are removed from every text, and writing never blocks. */
export function openLog({
  level,
  worker,
  tenant,
  sink = standardOutput(),
  detector = () => DETECTOR,
}: LogOptions): Log {
  const own = { ...(worker !== undefined && { worker }), ...(tenant !== undefined && { tenant }) };
  const shown = (value: unknown): Json => loggable(value, detector());
  const logger = pino(
    {
      level,
      base: Object.keys(own).length === 0 ? null : own,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ severity: label.toUpperCase() }) },
      hooks: {
        logMethod(args, method) {
          const [facts, message] = args as readonly unknown[];
          if (typeof facts === "string") method.call(this, String(shown(facts)));
          else method.call(this, fieldsOf(shown(facts)), String(shown(message ?? "")));
        },
      },
    },
    // Characters that control a terminal are escaped: operators read the log in terminals, and causes contain foreign text.
    { write: (line: string) => sink.write(`${escapeJson(line.trimEnd())}\n`) },
  );
  return { logger, dropped: () => sink.dropped, flush: (timeoutMs) => sink.flush(timeoutMs) };
}

let sharedSink: Sink | undefined;

/** Returns the sink of standard output. A process has only one, however many services it runs. */
function standardOutput(): Sink {
  sharedSink ??= new DescriptorSink(logDescriptor(), {
    gap: (dropped) => `${JSON.stringify({ severity: "WARN", msg: "lines of the log were dropped", dropped })}\n`,
  });
  return sharedSink;
}

const DEPTH_MAX = 4;
const MEMBERS_MAX = 64;
const CAUSES_MAX = 4;
/**
 * Maximum UTF-16 units of a text that are searched for secrets: more than are kept, so that no secret is cut before it is found.
 */
const SEARCHED_CHARACTERS_MAX = 16_384;
const KEPT_CHARACTERS_MAX = 8_192;
const UNREADABLE = "[unreadable]";

type LogFields = Readonly<Record<string, Json>>;

/** Returns a value as it may be logged: limited in size and without secrets. Never throws. */
export function loggable(value: unknown, detector: Detector = DETECTOR): Json {
  try {
    return cut(redact(plain(value, 0), { level: "secrets", detector }).value);
  } catch {
    return UNREADABLE;
  }
}

/** Returns a cause as text for operators: the names and messages of errors without stacks, or the members of another object. */
export function causeText(cause: unknown): string {
  const parts: string[] = [];
  try {
    let at = cause;
    for (; at instanceof Error && parts.length < CAUSES_MAX; at = at.cause) parts.push(`${at.name}: ${at.message}`);
    if (at !== undefined && !(at instanceof Error))
      parts.push(typeof at === "object" ? inspect(at, { depth: 2, breakLength: Infinity }) : String(at));
  } catch {
    // The thrown value has members that throw too.
    parts.push(UNREADABLE);
  }
  return parts.join(" ← ");
}

function plain(value: unknown, depth: number): Json {
  if (value === null || typeof value === "boolean" || typeof value === "number") return value;
  if (typeof value === "string") return value.slice(0, SEARCHED_CHARACTERS_MAX);
  if (value instanceof Error || typeof value !== "object") return causeText(value).slice(0, SEARCHED_CHARACTERS_MAX);
  if (depth === DEPTH_MAX) return "[deeper]";
  if (Array.isArray(value)) return value.slice(0, MEMBERS_MAX).map((item) => plain(item, depth + 1));
  const members: Record<string, Json> = {};
  for (const [name, member] of Object.entries(value).slice(0, MEMBERS_MAX)) {
    if (member !== undefined) members[name] = plain(member, depth + 1);
  }
  return members;
}

function cut(value: Json): Json {
  if (typeof value === "string") {
    return value.length > KEPT_CHARACTERS_MAX ? `${value.slice(0, KEPT_CHARACTERS_MAX)}…` : value;
  }
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(cut);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, cut(member)]));
}

/** Returns the fields of an object under OpenTelemetry's names: the W3C ids in `trace` become `trace_id` and `span_id`. */
function fieldsOf(value: Json): LogFields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return { fact: value };
  const { trace, ...fields } = value as LogFields;
  if (typeof trace !== "object" || trace === null || Array.isArray(trace)) return value as LogFields;
  const { traceId, spanId } = trace as LogFields;
  return {
    ...fields,
    ...(traceId !== undefined && { trace_id: traceId }),
    ...(spanId !== undefined && { span_id: spanId }),
  };
}
