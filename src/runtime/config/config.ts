import { basename, isAbsolute, join, resolve } from "node:path";
import { z } from "zod";
import { isTable } from "../../core/json.ts";
import { collectorProblems } from "../../core/network.ts";
import type { DeclaredKind } from "../../core/target-kind.ts";
import { serviceDirOf } from "../../core/tenant-names.ts";
import type { Modules } from "../module-types.ts";
import { approvals } from "./approvals.ts";
import { bundle, checkBundle } from "./bundle.ts";
import { dataFlow } from "./data-flow.ts";
import { decisionPoints } from "./decision-points.ts";
import { auditExport } from "./export.ts";
import { checkHubSection, hub } from "./hub.ts";
import { jwt } from "./jwt.ts";
import { checkListeners, consoleSection, listenerKeys } from "./listeners.ts";
import { configMessage } from "./problems.ts";
import { quotas } from "./quotas.ts";
import { bindings, checkBindings, roles } from "./roles.ts";
import type { FAMILY, Family } from "./tenant-family.ts";
import { tenants } from "./tenant-problems.ts";
import { count, instanceName, name, problemAdder, reloaded, reloadedKeys, text } from "./values.ts";
import { checkWorkers, partOfSystem, WORKERS_MAX } from "./workers.ts";
import { commands, workspace } from "./workspace.ts";

/**
 * Declares every key, limit and default of the service, together with the other files of this folder. Units are part of the key
 * names.
 */

/**
 * A path that is created when it is missing. Without this check, a shell spelling such as `~` would silently become a directory.
 */
const newPath = text.refine(
  (path) => !path.startsWith("~") && !path.includes("${"),
  "~ and variables are not expanded here: write the path itself",
);

export const server = z
  .strictObject({
    host: text.default("127.0.0.1"),
    ...listenerKeys,
    /**
     * Number of processes that serve calls at the port, for machines with several cores. From 2 on, a parent process starts and
     * replaces them, and serves `server.operator` and `server.console`. They need `approvals.store`, in whose database they share
     * approvals, halts and quotas.
     */
    workers: count(1, WORKERS_MAX),
    /**
     * A separate listener for /healthz, /readyz and /metrics, so that probes and scrapers need no access to the listener for
     * calls.
     */
    operator: z
      .strictObject({ host: text.default("127.0.0.1"), port: z.int().min(0).max(65_535).default(9787) })
      .optional(),
    /** The HTTP server that agents reach. The other listeners always use fastify. */
    http: z.enum(["built-in", "fastify"]).default("built-in"),
    bodyBytesMax: count(1_048_576, 67_108_864),
    headerBytesMax: count(16_384, 65_536),
    bodyDepthMax: count(32, 256),
    bodyKeysMax: count(10_000, 1_000_000),
    headersTimeoutMs: count(10_000, 120_000),
    requestTimeoutMs: count(15_000, 600_000),
    shutdownDelayMs: z.int().min(0).max(600_000).default(0),
    drainTimeoutMs: count(25_000, 600_000),
  })
  .superRefine(checkListeners)
  .prefault({});

const audit = (exporters: Modules["auditExporters"]) =>
  z.strictObject({
    dir: newPath,
    enabled: z.never("cannot be set: the audit is always on (no receipt, no reply)").optional(),
    durability: z.enum(["fdatasync", "write"]).default("fdatasync"),
    queueEntriesMax: count(4_096, 1_000_000),
    /** File with the key that makes `argsHash` an HMAC, so that it does not reveal short values. */
    hashKeyFile: text.optional(),
    /** File with the private key that signs the checkpoints: Ed25519 in PEM (PKCS8). */
    checkpointKeyFile: text.optional(),
    /** New calls are refused when fewer bytes than this are free; never more than a sixteenth of the disk. */
    diskReserveBytes: count(67_108_864, 1_099_511_627_776),
    /**
     * Collectors that audit lines are also sent to. A day's files are deleted after `retentionDays`, once every collector has
     * received them; without `retentionDays` they are never deleted.
     */
    export: auditExport(exporters),
    /** File with the URL of the database that an exporter of each replica fills: with it, operators ask the audits of all replicas. */
    storeUrlFile: text.optional(),
    retentionDays: z.int().min(1).max(36_500).optional(),
  });

/** An entry under `systems`: either the settings of one kind of target, or lists and settings that manifests refer to. */
export type SystemConfig = Readonly<Record<string, unknown>>;

/** Returns the schema of `systems`: every entry is of one kind, or contains lists and settings. */
function systemsOf(kinds: readonly DeclaredKind[]) {
  const known = kinds.flatMap(({ name: kind, systems: entries }) =>
    entries?.keys === undefined ? [] : [`${kind} (${entries.keys.join(", ")})`],
  );
  const expected = `must be text, true or false, a list of names, or names with directories; keys with other values belong to a kind of system: ${known.join("; ")}`;
  /** Repositories map to directories, other lists are plain. Keys with other values are settings. */
  const lists = z.record(name, z.union([z.record(name, text), z.array(name), text, z.boolean()], expected));
  return z
    .record(name, z.unknown())
    .default({})
    .transform((declared, context) => {
      const read: Record<string, SystemConfig> = {};
      for (const [system, value] of Object.entries(declared)) {
        const [match, secondMatch] = matchingKinds(system, value, kinds);
        if (match !== undefined && secondMatch !== undefined) {
          const message = `has keys of the kinds ${match.kind.name} and ${secondMatch.kind.name}: a system is of one kind`;
          context.issues.push({ code: "custom", message, input: value, path: [system] });
          continue;
        }
        const parsed = (match?.schema ?? lists).safeParse(value ?? {}, { error: configMessage });
        if (parsed.success) {
          const entry = parsed.data as SystemConfig;
          read[system] = entry;
          if (match !== undefined) kindOfEntry.set(entry, match.kind.name);
        }
        for (const issue of parsed.error?.issues ?? []) {
          const message = match === undefined ? issue.message : withKindName(issue, match.kind);
          context.issues.push({
            ...issue,
            message,
            input: value,
            path: [system, ...issue.path],
          } as z.core.$ZodRawIssue);
        }
      }
      return read;
    });
}

interface MatchingKind {
  readonly kind: DeclaredKind;
  readonly schema: z.ZodType;
}

/** Returns the kinds whose keys the entry contains; if there are none, the kind that declares the entry's name. */
function matchingKinds(system: string, entry: unknown, kinds: readonly DeclaredKind[]): readonly MatchingKind[] {
  const has = (key: string): boolean => isTable(entry) && key in entry;
  const byKey = kinds.flatMap((kind) => {
    const { keys = [], schema } = kind.systems ?? {};
    return schema !== undefined && keys.some(has) ? [{ kind, schema }] : [];
  });
  if (byKey.length > 0) return byKey;
  return kinds.flatMap((kind) => {
    const schema = new Map(Object.entries(kind.systems?.named ?? {})).get(system);
    return schema === undefined ? [] : [{ kind, schema }];
  });
}

/** Adds the name of the kind to a message about unknown keys. */
function withKindName({ code, path, message }: z.core.$ZodIssue, { name: kind }: DeclaredKind): string {
  return code !== "unrecognized_keys" || path.length > 0 ? message : message.replaceAll(/$/gm, ` (kind ${kind})`);
}

/**
 * Returns the configuration with a worker's part of the limits of each system: the workers of a service together open no more calls
 * to a system than one process.
 */
export function withPartOfSystems(config: Config): Config {
  const { worker, server, systems } = config;
  if (worker === undefined) return config;
  const parts = Object.entries(systems).map(([name, entry]) => {
    const kind = kindOfEntry.get(entry);
    if (kind === undefined) return [name, entry] as const;
    const part = partOfSystem(entry, server.workers);
    kindOfEntry.set(part, kind);
    return [name, part] as const;
  });
  return { ...config, systems: Object.fromEntries(parts) };
}

/** Maps each entry to the name of its kind. The keys no longer show the kind: defaults may have added a key of another kind. */
const kindOfEntry = new WeakMap<SystemConfig, string>();

/** Returns the entries under `systems` that are of the kind with this name. */
export function entriesOf(
  { systems }: Pick<Config, "systems">,
  { name }: Pick<DeclaredKind, "name">,
): ReadonlyMap<string, SystemConfig> {
  return new Map(Object.entries(systems).filter(([, entry]) => kindOfEntry.get(entry) === name));
}

/**
 * Signed assertion of the caller's identity for the target services. It has its own key and issuer, and no endpoint of this
 * service accepts it.
 */
const assertion = z.strictObject({
  /** The `iss` of the assertions. */
  issuer: text,
  /** Private key that signs the assertions, PEM: P-256 (ES256) or Ed25519 (EdDSA). */
  keyFile: text,
});

const RULES_MAX = 100;
const EXAMPLES_MAX = 16;
const EXAMPLE_CHARACTERS_MAX = 512;

const examples = z.array(z.string().min(1).max(EXAMPLE_CHARACTERS_MAX)).max(EXAMPLES_MAX);

const rule = z.strictObject({
  /** Name of the rule in `redactions` and, for personal data, in place of the value: `[REDACTED:EMPLOYEE_ID]`. */
  id: z
    .string()
    .regex(/^[A-Za-z][A-Za-z0-9_-]{0,47}$/, "must be a name of letters, digits, dash, underscore, such as EMPLOYEE_ID"),
  /** Words, in upper or lower case. The pattern is applied only where one of them occurs. */
  anchors: z.array(z.string().min(3).max(64)).min(1).max(EXAMPLES_MAX),
  /**
   * Regular expression in RE2 syntax, searched for in the line of the word: from 64 characters before it to 256 after it. The
   * last group that takes part is hidden, or the whole match when there is no group.
   */
  pattern: z.string().min(1).max(512),
  /** `secrets`: hidden everywhere. `balanced`, `strict`: personal data, hidden at this level of `scan` and above. */
  level: z.enum(["secrets", "balanced", "strict"]).default("secrets"),
  /** Texts in which the rule must find something. Checked at start. */
  matches: examples.min(1),
  /** Texts in which it must find nothing. */
  misses: examples.default([]),
});

/** The section `redaction`. */
const redaction = z
  .strictObject({
    /** Rules for secrets and personal data of your own, in addition to the built-in ones. */
    rules: z.array(rule).max(RULES_MAX).default([]),
  })
  .prefault({});

const HOLD_SECONDS_MAX = 3_600;

/** The section `mcp`: the MCP server on the listener for calls. */
const mcp = z
  .strictObject({
    /** Whether `POST /mcp` exists. */
    enabled: z.boolean().default(true),
    /** Largest result of a call over MCP, as JSON, where the tool's own limit is not lower. What is over it is cut. */
    resultBytesMax: count(65_536, 16_777_216),
    /**
     * How long a call over MCP is held while an approver is asked, when the client asked for progress; other clients wait for at
     * most 50 s. 0: a call is never held.
     */
    holdSeconds: z.int().min(0).max(HOLD_SECONDS_MAX).default(200),
    /**
     * Number of tools above which a caller's list over MCP holds two tools, `find_tools` and `call_tool`, instead of its own;
     * `off`: the list is always whole.
     */
    searchAbove: z
      .union([z.literal("off"), z.int().min(1).max(10_000)], "must be a number of tools, or off")
      .default(64),
    /**
     * Whether `/.well-known/oauth-protected-resource` and the challenge of a 401 lead clients to an authorization server. Without
     * this key: exactly when `server.resource` is set. Turn it off where agents have configured tokens, because some clients drop
     * those when the metadata answers.
     */
    oauthMetadata: z.boolean().optional(),
  })
  .prefault({});

const log = z
  .strictObject({ level: reloaded(z.enum(["debug", "info", "warn", "error", "silent"]).default("info")) })
  .prefault({});

/** The section `reload`: how the service applies changes of the configuration, the manifests and the keys. */
const reload = z
  .strictObject({
    /**
     * What starts a reload. `request`: SIGHUP, `POST /reload` or `stc reload`. `watch`: also any change of a file, so that
     * whoever can write a manifest can run it. `off`: nothing.
     */
    trigger: z.enum(["request", "watch", "off"]).default("request"),
    /** Maximum number of reloads a minute, including refused ones. A change that comes too soon is applied later. */
    perMinuteMax: z.int().min(1).max(6_000).default(30),
    /** Maximum time for one manifest to load, also at start. It does not stop a manifest that computes forever. */
    importTimeoutMs: z.int().min(1).max(120_000).default(10_000),
  })
  .prefault({});

const URL_CHARACTERS_MAX = 2_048;

const traces = z
  .strictObject({
    /** URL of a collector that accepts OTLP over HTTP. A URL without a path gets the default path, /v1/traces. */
    endpoint: z
      .url({ protocol: /^https?$/, error: "must be a URL that begins with https:// or http://" })
      .max(URL_CHARACTERS_MAX),
    /** File with headers to send, such as credentials: one `Name: value` per line. */
    headersFile: z.string().min(1).optional(),
    /** Share of the traces starting here that are recorded. A request that continues a trace is recorded if that trace is. */
    sampleRatio: z
      .number("must be a number from 0 to 1")
      .min(0, "must be a number from 0 to 1")
      .max(1, "must be a number from 0 to 1")
      .default(1),
    /**
     * Time between two requests to the collector; each carries the spans that ended since the previous one. A request is sent
     * earlier when 512 spans wait.
     */
    sendEveryMs: z.int().min(10).max(60_000).default(1_000),
  })
  .superRefine(({ endpoint, headersFile }, context) => {
    for (const message of collectorProblems(endpoint, headersFile)) problemAdder(context)("endpoint", message);
  });

/** The section `telemetry`. Nothing is sent unless it is configured here. */
const telemetry = z
  .strictObject({
    /** Name of the service in traces. */
    serviceName: name.default("safe-tool-call"),
    /** Where traces of calls are sent. Without this section, there are no traces. */
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

/** Rate limits. A call beyond a limit is refused, and the refusal names the time to wait. */
const rates = z
  .strictObject({
    /**
     * Rate limit of one caller, all tools together: `{ calls, seconds, burst }` allows `calls` in `seconds`, and up to `burst` of
     * them at once (`calls` when left out); `off` sets no limit. The default is more than one process can serve: lower it to what
     * your agents need.
     */
    caller: rateOrOff.default({ calls: 1_800_000, seconds: 60 }),
    /** Rate limit of one caller for one tool. */
    callerAndTool: rateOrOff.default("off"),
    /** Rate limit of one tool, all callers together. The operators of the tool's target know what it can handle. */
    tool: rateOrOff.default("off"),
    /** Rate limit of all calls together. */
    service: rateOrOff.default("off"),
    /** Rate limits of single tools, by tool name; they replace `callerAndTool` and `tool`. */
    tools: z
      .record(z.string().min(1).max(64), toolRates)
      .refine((tools) => Object.keys(tools).length <= TOOLS_MAX, `names more than ${TOOLS_MAX} tools`)
      .default({}),
    /**
     * Rate limit of one caller's requests other than calls: listings, sessions, approval requests and decisions, streams, audit
     * queries.
     */
    requests: rateOrOff.default({ calls: 60_000, seconds: 60 }),
  })
  .prefault({});

/** Limits on concurrency, rates and load. */
const limits = z
  .strictObject({
    concurrentCallsMax: count(1_024, 100_000),
    concurrentCallsPerCallerMax: count(256, 100_000),
    /** Maximum number of calls a minute that one caller may start and then abandon by disconnecting before the answer. */
    cancellationsPerMinuteMax: count(120, 100_000),
    /** Maximum number of refusals of unauthenticated clients that get an audit line of their own, per source and minute. */
    strangerLinesPerMinute: count(60, 100_000),
    rates,
    quotas,
    /**
     * Whether replicas count `rates` together, in the PostgreSQL database of `approvals.storeUrlFile`. Each replica counts
     * locally and shares its counts every 100 ms, so that no call waits for the database; while the database is unavailable, each
     * continues with its own counts.
     */
    shared: z.boolean().default(false),
    /**
     * Maximum number of refused tokens from one source address, per minute and in one burst. Beyond it, tokens from that address
     * that were not verified before get RATE_LIMITED without being checked.
     */
    wrongTokensPerMinuteMax: count(30_000, 10_000_000),
    /**
     * Delay of the event loop, measured five times in a row, at which the service starts to shed calls. Until the loop has been
     * on time for a second, calls that arrive while it is that late again get OVERLOADED before their body is read.
     */
    loopDelayMsMax: count(500, 60_000),
    /**
     * Maximum number of connections that have sent a request. A connection that has sent none is closed after
     * `server.headersTimeoutMs`; set the process's limit of open files above the total of both.
     */
    connectionsMax: count(50_000, 1_000_000),
    /** Maximum number of such connections from one source address; for IPv6, from one /64. */
    connectionsPerSourceMax: count(20_000, 1_000_000),
    /**
     * Maximum time for a client to accept a whole answer; then its connection is closed. Streams have time limits of their own.
     */
    answerTimeoutMs: count(60_000, 3_600_000),
  })
  .prefault({});

/** The section `halts`: the kill switch, which operators set by `stc halt`. */
const halts = z
  .strictObject({
    /**
     * What happens to changes while the approvals' database cannot be read for more than 5 s. `keepLast`: the halts that are known
     * stay in force. `refuseChanges`: changes are refused as well, because a newer halt may stop them.
     */
    whenUnknown: z.enum(["keepLast", "refuseChanges"]).default("keepLast"),
  })
  .prefault({});

const sections = (modules: Modules) =>
  z.strictObject({
    /**
     * Name of this service among those that write to one store or one collection of logs: part of every audit line and of traces.
     * Default: the host name.
     */
    instance: instanceName.optional(),
    /** A signed bundle with the part of the configuration that all members of a fleet share. */
    bundle: bundle.optional(),
    server,
    /** Manifests: files or folders. Only a service with `tenants` may have none itself. */
    tools: reloaded(
      z.array(z.unknown()),
      "the list, the manifests, and what they import by a relative path with its extension",
    ),
    audit: audit(modules.auditExporters),
    jwt: reloaded(jwt(modules.tokenSources), "issuers, keys in files, permissions by subject"),
    roles: reloaded(roles, "what roles give, with the permissions that their tools require then"),
    bindings: reloaded(
      bindings,
      "who holds roles; callers that are connected get and lose permissions with their next request",
    ),
    systems: reloaded(
      systemsOf(modules.targetKinds),
      "endpoints, contracts with the files that an OpenAPI document refers to, lists that tools may name; certificate files and `jwt.revocationFile` are followed without a reload",
    ),
    commands: reloaded(commands, "the allowed commands, their paths and their confinement"),
    workspace: reloaded(workspace, "directories and limits"),
    approvals: approvals(modules.approvalStores),
    /**
     * A fleet: a hub shares its database with members, which have none of their own. A service is the one (`listen`) or the other
     * (`url`).
     */
    hub: hub(modules.tokenSources),
    /** Who else decides whether a call may run, after the permissions: policies in Cedar, or a service that speaks AuthZEN. */
    decisionPoints: reloaded(
      decisionPoints(modules.decisionPoints),
      "points, and the files of their policies; answers that were kept are forgotten; certificate files are followed without a reload",
    ),
    dataFlow: reloaded(dataFlow, "what callers have read is remembered as before; the new rules apply to later calls"),
    assertion: reloaded(assertion.optional(), "issuer and key"),
    halts: reloaded(halts),
    limits: reloaded(limits, "counts continue, as described below; open connections stay"),
    mcp,
    console: consoleSection,
    redaction: reloaded(redaction, "calls that started before keep their rules"),
    log,
    telemetry,
    reload,
    /**
     * Tenants, by name: `{ acme: { tools: [./acme/tools], systems: { … } } }`. Each is a service of its own inside the process, with its own
     * approvals and audit, for the callers of the issuers that name it (`jwt.issuers[].tenants`). What a tenant may reach (`tools`,
     * `systems`, `commands`, `workspace`) it has only if it writes it here; what limits it (`roles`, `bindings`, `limits`, `dataFlow`,
     * `decisionPoints`, `redaction`, keys of `approvals` and `audit`) it has from the service unless it writes it here.
     */
    tenants: reloaded(tenants, "what each tenant's section says; other names need a restart"),
  });

/**
 * Returns the schema of the whole configuration. An assertion about a caller must never come back as a caller's own token, so
 * the two need different issuers and types.
 */
const schemaOf = (modules: Modules) =>
  sections(modules).superRefine((config, context) => {
    const { assertion: own, console, jwt, mcp, server, tools, tenants: inside } = config;
    const add = problemAdder(context);
    if (tools.length === 0 && inside === undefined) add("tools", "must have at least 1 entry");
    checkBindings(config, context);
    checkBundle(config, context);
    checkWorkers(config, context);
    checkHubSection(config, context);
    if (console?.oidc !== undefined && server.console === undefined) {
      add("console.oidc", "is for the sign-in at server.console, which is missing");
    }
    if (console?.oidc !== undefined && !jwt.issuers.some(({ operators }) => operators)) {
      add("console.oidc", "signs operators in, and no issuer in jwt.issuers has operators: true");
    }
    if (mcp.oauthMetadata === true && server.resource === undefined) {
      add("mcp.oauthMetadata", "describes server.resource, which is missing");
    }
    for (const [index, { issuer: name, typ }] of jwt.issuers.entries()) {
      if (name === own?.issuer) add("assertion.issuer", "is also an issuer of callers' tokens");
      if (typ !== undefined && /^(?:application\/)?stc-assertion\+jwt$/i.test(typ)) {
        add(["jwt", "issuers", index, "typ"], "is the type of our own caller assertions, which no endpoint accepts");
      }
    }
  });

const schemas = new WeakMap<Modules, ReturnType<typeof schemaOf>>();

/** Returns the schema of the whole configuration of a build. */
export function configSchema(modules: Modules): ReturnType<typeof schemaOf> {
  const schema = schemas.get(modules) ?? schemaOf(modules);
  schemas.set(modules, schema);
  return schema;
}

/** Returns the keys that a reload adopts, with everything below them. Every other key is read only at startup. */
export function liveKeys(modules: Modules): readonly string[] {
  return reloadedKeys(configSchema(modules)).map(({ key }) => key);
}

/** The configuration, read once and frozen. `tools` holds paths; in the library, also the tools themselves. */
export interface Config extends Readonly<z.output<ReturnType<typeof schemaOf>>> {
  /** Directory against which relative paths are resolved. */
  readonly folder: string;
  /** File that the configuration was read from, or another name for it in messages. */
  readonly origin: string;
  /** PATH of the service, for finding the allowed commands. */
  readonly searchPath: string;
  /** Number of this process among the workers of `server.workers`, counted from 1; undefined in every other process. */
  readonly worker?: number | undefined;
  /** Name of the tenant whose configuration this is; undefined for that of the service itself. */
  readonly tenant?: string | undefined;
  readonly [FAMILY]?: Family<Config>;
}

/** A configuration as an embedder or a YAML file may write it. */
export type ConfigInput = z.input<ReturnType<typeof schemaOf>>;

export type Environment = Readonly<Record<string, string | undefined>>;

/** Environment variables and the configuration keys that they override. */
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

type AuditOf = Pick<Config, "audit" | "tenant">;

/** Returns the path of the key that signs the audit's checkpoints. */
export function checkpointKeyFileOf(config: AuditOf): string {
  return config.audit.checkpointKeyFile ?? ownCheckpointKeyFile(auditDirOfService(config), config.tenant);
}

/**
 * Returns the path of the key that the service creates itself, for itself or for a tenant. It lies next to the service's audit directory:
 * whoever copies the directory for an auditor must not copy the key.
 */
export function ownCheckpointKeyFile(dir: string, tenant: string | undefined): string {
  const name = basename(dir);
  const own = tenant === undefined ? "" : `.${tenant}`;
  return join(dir, "..", `${/^\.*$/.test(name) ? "audit" : name}${own}.key`);
}

/** Returns the audit directory of the service, in which each tenant has a folder. */
export function auditDirOfService({ audit: { dir }, tenant }: AuditOf): string {
  return tenant === undefined ? dir : serviceDirOf(dir);
}

/** Returns the absolute path of a path in the configuration. */
export function pathFrom(config: Pick<Config, "folder">, path: string): string {
  return isAbsolute(path) ? path : resolve(config.folder, path);
}
