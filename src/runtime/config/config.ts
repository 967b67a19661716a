import { isAbsolute, resolve } from "node:path";
import { z } from "zod";
import { StartupError } from "../../core/errors.ts";
import { approvals } from "./approvals.ts";
import { auditExport, collectorFaults } from "./export.ts";
import { configFaults, configMessage, fieldOf } from "./faults.ts";
import { GRPC_SIGNS, type GrpcSystemConfig, grpcSystem } from "./grpc.ts";
import { type IssuerConfig, jwt, withIssuerList } from "./jwt.ts";
import { PLATFORM_SYSTEMS } from "./platform.ts";
import { checkDoors, doors } from "./tls.ts";
import { commands, workspace } from "./workspace.ts";

/** Every key, limit and default of the service stands in this file. Units are part of the names. */

const name = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, "must be a name of letters, digits, dot, dash, underscore");
const text = z.string().min(1);
/** A place that is made when it is missing: nothing else would notice that a shell's spelling was meant. */
const newPlace = text.refine(
  (path) => !path.startsWith("~") && !path.includes("${"),
  "neither ~ nor a variable is filled in here: write the path itself",
);
const count = (fallback: number, max: number) => z.int().min(1).max(max).default(fallback);

const server = z
  .strictObject({
    host: text.default("127.0.0.1"),
    ...doors,
    /** A listener of its own for /healthz, /readyz and /metrics: what probes and scrapes needs no way to the calls. */
    operator: z
      .strictObject({ host: text.default("127.0.0.1"), port: z.int().min(0).max(65_535).default(9787) })
      .optional(),
    bodyBytesMax: count(1_048_576, 67_108_864),
    headerBytesMax: count(16_384, 65_536),
    bodyDepthMax: count(32, 256),
    bodyKeysMax: count(10_000, 1_000_000),
    headersTimeoutMs: count(10_000, 120_000),
    requestTimeoutMs: count(15_000, 600_000),
    drainTimeoutMs: count(25_000, 600_000),
  })
  .superRefine(checkDoors)
  .prefault({});

const audit = z.strictObject({
  dir: newPlace,
  enabled: z.never("cannot be set: the audit is always on (no receipt, no reply)").optional(),
  durability: z.enum(["fdatasync", "write"]).default("fdatasync"),
  queueEntriesMax: count(4_096, 1_000_000),
  /** With the first, `argsHash` is an HMAC and gives no short value away; the second, Ed25519 in PEM (PKCS8), signs the checkpoints. */
  hashKeyFile: text.optional(),
  checkpointKeyFile: text.optional(),
  /** With less than this free no call is taken; never more than a sixteenth of the disk. */
  diskReserveBytes: count(67_108_864, 1_099_511_627_776),
  /** Where lines are sent besides; a day's files that all of them have passed go after `retentionDays`, and never without it. */
  export: auditExport,
  retentionDays: z.int().min(1).max(36_500).optional(),
});

/** Closed lists by name: repositories map to directories, others are plain lists. Keys with other values are settings. */
const listSystem = z.record(name, z.union([z.record(name, text), z.array(name), text, z.boolean()]));

const systems = z
  .record(name, z.unknown())
  .default({})
  .transform((declared, context) => {
    const read: Record<string, SystemConfig> = {};
    for (const [system, value] of Object.entries(declared)) {
      const parsed = systemSchema(system, value).safeParse(value ?? {}, { error: configMessage });
      if (parsed.success) read[system] = parsed.data as SystemConfig;
      for (const issue of parsed.error?.issues ?? []) {
        context.issues.push({ ...issue, input: value, path: [system, ...issue.path] } as z.core.$ZodRawIssue);
      }
    }
    return read;
  });

function systemSchema(system: string, value: unknown): z.ZodType {
  const isDeclared = (key: string): boolean => typeof value === "object" && value !== null && key in value;
  const platform = Object.hasOwn(PLATFORM_SYSTEMS, system)
    ? PLATFORM_SYSTEMS[system as keyof typeof PLATFORM_SYSTEMS]
    : undefined;
  if (platform !== undefined && !isDeclared("endpoint")) return platform;
  return GRPC_SIGNS.some(isDeclared) ? grpcSystem : listSystem;
}

/** A signed word on who calls, for the services: it has its own key and issuer, and no door of ours takes it. */
const assertion = z.strictObject({
  /** Its `iss`. */
  issuer: text,
  /** PEM of a private key on P-256 (ES256) or Ed25519 (EdDSA). */
  keyFile: text,
});

const log = z
  .strictObject({ level: z.enum(["debug", "info", "warn", "error", "silent"]).default("info") })
  .prefault({});

/** How the service takes over a configuration, manifests and keys that have changed. */
const reload = z
  .strictObject({
    /** `request`: on SIGHUP, `POST /reload` and `stc reload`. `watch`: besides, when a file changes, so that whoever may write a manifest may run it. `off`: never. */
    trigger: z.enum(["request", "watch", "off"]).default("request"),
    /** Reloads a minute, refused ones too; a change that comes too soon is taken over later. */
    perMinuteMax: z.int().min(1).max(6_000).default(30),
    /** For one manifest to finish loading, at the start too; one that computes without an end is not stopped by it. */
    importTimeoutMs: z.int().min(1).max(120_000).default(10_000),
  })
  .prefault({});

const URL_CHARACTERS_MAX = 2_048;

const traces = z
  .strictObject({
    /** Of a collector that takes OTLP over HTTP. Without a path the usual one: /v1/traces. */
    endpoint: z
      .url({ protocol: /^https?$/, error: "must be a URL that begins with https:// or http://" })
      .max(URL_CHARACTERS_MAX),
    /** Lines of `Name: value`, such as credentials. */
    headersFile: z.string().min(1).optional(),
    /** Which share of the traces that begin here is recorded; a request that belongs to a trace is recorded where that one is. */
    sampleRatio: z
      .number("must be a number from 0 to 1")
      .min(0, "must be a number from 0 to 1")
      .max(1, "must be a number from 0 to 1")
      .default(1),
    /** Between two requests to the collector; each carries what has ended since. Sooner when 512 spans wait. */
    sendEveryMs: z.int().min(10).max(60_000).default(1_000),
  })
  .superRefine(({ endpoint, headersFile }, context) => {
    for (const message of collectorFaults(endpoint, headersFile)) {
      context.addIssue({ code: "custom", path: ["endpoint"], message });
    }
  });

/** `telemetry`: nothing leaves unless it stands here. */
const telemetry = z
  .strictObject({
    /** What the service is called among the traces of others. */
    serviceName: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, "must be a name of letters, digits, dot, dash, underscore")
      .default("safe-tool-call"),
    /** Where the traces of calls are sent. Without the section there are none. */
    traces: traces.optional(),
  })
  .prefault({});

const CALLS_MAX = 100_000_000;
const WINDOW_SECONDS_MAX = 86_400;
const TOOLS_MAX = 1_000;

const rate = z.strictObject({
  calls: z.int().min(1).max(CALLS_MAX),
  seconds: z.int().min(1).max(WINDOW_SECONDS_MAX),
  burst: z.int().min(1).max(CALLS_MAX).optional(),
});

const rateOrOff = z.union([z.literal("off"), rate], "must be { calls: 100, seconds: 60 }, or off");

const toolRates = z.strictObject({ callerAndTool: rateOrOff.optional(), tool: rateOrOff.optional() });

/** How often. What is beyond is refused with the time to wait. */
const rates = z
  .strictObject({
    /** Of one caller, all tools together: `{ calls, seconds, burst }`, so many in so many seconds, and up to `burst` of them at once (as many as `calls` when left out); or `off`. The default is more than one process serves: no agent meets it. Lower it to what yours do. */
    caller: rateOrOff.default({ calls: 1_800_000, seconds: 60 }),
    /** Of one caller and one tool. */
    callerAndTool: rateOrOff.default("off"),
    /** Of one tool, all callers together: what its target can bear is for its operators to say. */
    tool: rateOrOff.default("off"),
    /** Of all calls together. */
    service: rateOrOff.default("off"),
    /** By the tool's name, in place of `callerAndTool` and `tool`. */
    tools: z
      .record(z.string().min(1).max(64), toolRates)
      .refine((tools) => Object.keys(tools).length <= TOOLS_MAX, `names more than ${TOOLS_MAX} tools`)
      .default({}),
    /** Of one caller's requests that are no calls: listings, sessions, questions and their answers, streams, audit queries. */
    requests: rateOrOff.default({ calls: 60_000, seconds: 60 }),
  })
  .prefault({});

/** How much at once, and how often. */
const limits = z
  .strictObject({
    concurrentCallsMax: count(1_024, 100_000),
    concurrentCallsPerCallerMax: count(256, 100_000),
    /** How often a minute one caller may start a call and go away before its answer. */
    cancellationsPerMinuteMax: count(120, 100_000),
    /** Refusals of unauthenticated peers that get a line of their own, per source and minute. */
    strangerLinesPerMinute: count(60, 100_000),
    rates,
    /** Whether replicas count `rates` together, in the PostgreSQL of `approvals.storeUrlFile`: each counts for itself first and tells the others every 100 ms, so that no call waits for the database, and each goes on with its own count while the database is away. */
    shared: z.boolean().default(false),
    /** Tokens of one source address that were refused, a minute and at once; beyond it tokens that were not verified before are RATE_LIMITED there, unlooked at. */
    wrongTokensPerMinuteMax: count(30_000, 10_000_000),
    /** How late the event loop may be, five times in a row, before calls are shed: from then on those that come when it is so late again are OVERLOADED, before their body is read, until it has been on time for a second. */
    loopDelayMsMax: count(500, 60_000),
    /** Connections that have sent a request. One that has sent none is closed after `server.headersTimeoutMs`; keep the process's limit of open files above both. */
    connectionsMax: count(50_000, 1_000_000),
    /** The same of one source address; of IPv6, of one /64. */
    connectionsPerSourceMax: count(20_000, 1_000_000),
    /** How long a client may take to accept an answer whole; then its connection is closed. Streams have patience of their own. */
    answerTimeoutMs: count(60_000, 3_600_000),
  })
  .prefault({});

const sections = z.strictObject({
  server,
  /** Files or folders of manifests. */
  tools: z.array(z.unknown()).min(1),
  audit,
  jwt,
  systems,
  commands,
  workspace,
  approvals,
  assertion: assertion.optional(),
  limits,
  log,
  telemetry,
  reload,
});

/** What we assert of a caller must never come back to us as a caller's own token. */
export const configSchema = sections.superRefine(({ assertion: own, jwt: { issuers } }, context) => {
  for (const [index, { issuer: name, typ }] of issuers.entries()) {
    if (name === own?.issuer) {
      context.addIssue({
        code: "custom",
        path: ["assertion", "issuer"],
        message: "is also an issuer of callers' tokens",
      });
    }
    if (typ !== undefined && /^(?:application\/)?stc-assertion\+jwt$/i.test(typ)) {
      context.addIssue({
        code: "custom",
        path: ["jwt", "issuers", index, "typ"],
        message: "is the type of our own caller assertions: no door takes them",
      });
    }
  }
});

export type { GrpcSystemConfig, IssuerConfig };

type ListSystemConfig = z.output<typeof listSystem>;
export type SystemConfig = GrpcSystemConfig | ListSystemConfig;

/** The configuration, read once and frozen. `tools` holds paths, or in the library also tools themselves. */
export interface Config extends Readonly<z.output<typeof configSchema>> {
  /** Relative paths are taken from here. */
  readonly folder: string;
  /** The file that it was read from, or what else it is called in messages. */
  readonly origin: string;
  /** PATH of the service, for finding the allowed commands. */
  readonly searchPath: string;
}

/** What an embedder or a YAML file may write. */
export type ConfigInput = z.input<typeof configSchema>;

export type Environment = Readonly<Record<string, string | undefined>>;

/** Environment variables and where in the configuration they go. */
export const environmentOverrides = [
  { variable: "STC_HOST", path: ["server", "host"], read: (value: string): unknown => value },
  {
    variable: "STC_PORT",
    path: ["server", "port"],
    read: (value: string): unknown => (/^\d{1,5}$/.test(value) ? Number(value) : value),
  },
  { variable: "STC_AUDIT_DIR", path: ["audit", "dir"], read: (value: string): unknown => value },
  { variable: "STC_APPROVALS_STORE", path: ["approvals", "store"], read: (value: string): unknown => value },
  { variable: "STC_LOG_LEVEL", path: ["log", "level"], read: (value: string): unknown => value },
] as const;

interface ReadOptions {
  readonly folder: string;
  readonly environment: Environment;
  /** What to call the configuration in messages. */
  readonly origin: string;
}

/**
 * Reads a configuration object: the same shape as the file.
 *
 * @throws {StartupError} with every mistake
 */
export function readConfig(written: unknown, { folder, environment, origin }: ReadOptions): Config {
  const parsed = configSchema.safeParse(withOverrides(written, environment), { error: configMessage });
  if (!parsed.success) {
    throw new StartupError(
      configFaults(parsed.error.issues).map(
        ({ path, message }) => `${origin}: ${fieldOf(path)}: ${message}${overrideHint(path, environment)}`,
      ),
    );
  }
  return deepFreeze({ ...parsed.data, folder, origin, searchPath: environment["PATH"] ?? "" });
}

/**
 * The section `server` alone, whatever is wrong with the others.
 *
 * @throws {StartupError} with every mistake in it
 */
export function readServer(written: unknown, { environment, origin }: ReadOptions): Config["server"] {
  const config = withOverrides(written ?? {}, environment);
  const section = typeof config === "object" && config !== null && "server" in config ? config.server : undefined;
  const parsed = server.safeParse(section, { error: configMessage });
  if (parsed.success) return parsed.data;
  const faults = configFaults(parsed.error.issues);
  throw new StartupError(faults.map(({ path, message }) => `${origin}: ${fieldOf(["server", ...path])}: ${message}`));
}

/** An absolute path for one that the configuration names. */
export function pathFrom(config: Pick<Config, "folder">, path: string): string {
  return isAbsolute(path) ? path : resolve(config.folder, path);
}

export function isGrpcSystem(system: SystemConfig | undefined): system is GrpcSystemConfig {
  return system !== undefined && typeof system["messageBytesMax"] === "number";
}

function withOverrides(written: unknown, environment: Environment): unknown {
  if (typeof written !== "object" || written === null || Array.isArray(written)) return written;
  // In YAML a section whose keys are all commented out is null.
  const config: Record<string, unknown> = Object.fromEntries(
    Object.entries(written).filter(([, section]) => section !== null),
  );
  if ("jwt" in config) config["jwt"] = withIssuerList(config["jwt"]);
  for (const { variable, path, read } of environmentOverrides) {
    const value = environment[variable];
    if (value === undefined || value === "") continue;
    const [section, key] = path;
    const before = config[section];
    config[section] = { ...(typeof before === "object" ? before : {}), [key]: read(value) };
  }
  return config;
}

function overrideHint(path: readonly PropertyKey[], environment: Environment): string {
  const override = environmentOverrides.find((row) => row.path.join(".") === path.join("."));
  return override !== undefined && environment[override.variable] ? ` (set by ${override.variable})` : "";
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  if (Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype) {
    for (const inner of Object.values(value)) deepFreeze(inner);
    Object.freeze(value);
  }
  return value;
}
