import type { z } from "zod";
import type { Fault } from "./errors.ts";
import { isTable } from "./json.ts";
import { isText, type Unchecked, unknownKeys, unless } from "./manifest/checks.ts";
import { hint } from "./nearest.ts";
import type {
  Category,
  DataLabel,
  EpochMs,
  ExecutionPlan,
  FieldAction,
  Handler,
  Json,
  Tool,
  ToolClassification,
  ToolConfig,
} from "./types.ts";

/**
 * The declaration of a kind of target. `modules.ts` lists the kinds of a build; registry, configuration, `stc
 * check`, the approval view, `/readyz` and metrics are derived from the list.
 */
export interface TargetKind<Context extends TargetContext = TargetContext> {
  /** The `kind` of its plans. */
  readonly name: string;
  /** The key of a manifest's `target` that holds this kind's part. */
  readonly key: string;
  /** Describes this kind's entries under `systems`. Their keys have descriptions, for the reference. */
  readonly systems?: SystemEntries;
  /**
   * Describes `target.<key>` in data-only manifests, for editors; `check` decides. Left out: any table. False: a target of this
   * kind needs code.
   */
  readonly data?: z.ZodType | false;
  /** Checks a manifest's `target.<key>`. */
  readonly check: (part: unknown, manifest: Unchecked) => readonly Fault[];
  /** Returns the errors in the input schema, once everything else in the manifest is valid. */
  readonly checkInput?: (input: z.ZodType) => readonly Fault[];
  /** Returns whether such a target has error texts of its own, which `errors: "filtered"` may release. */
  readonly hasErrorText?: (part: unknown) => boolean;
  /**
   * Returns whether others than the operators of this service may have written what such a target answers, and may read what it is
   * sent: the default of a tool that does not declare its data flow. `accepts`: the manifest's examples. `isShellConfined`:
   * whether shells run only where the kernel confines them. Left out: no.
   */
  readonly reachesOthers?: (part: unknown, accepts: readonly unknown[], isShellConfined: boolean) => boolean;
  /** Labels of the answers of such tools, unless a tool declares its own. Left out: none. */
  readonly reads?: readonly DataLabel[];
  /**
   * Returns the category of a tool that declares none, unless it is clearly a read. Undefined: the manifest must
   * declare one. `isRead` is true for a tool classified as read whose words indicate a change.
   */
  readonly category: (isRead: boolean) => Category | undefined;
  /** True when `target.<key>` describes a request: its texts with slashes are not paths of files. */
  readonly describesRequest?: true;
  /** Returns `target.<key>` changed so that the text of its answers is read as JSON. Left out: its answers are never only a text. */
  readonly readAsJson?: (part: unknown) => Json;
  /**
   * Returns how the calls of a tool are planned where only its target can check the tool: from manifest and arguments, for programs
   * that reach no target. `system`: its entry. Undefined: binding the tool reaches nothing, as with every tool when left out.
   */
  readonly planOffline?: (tool: Tool, system: unknown) => OfflinePlanner | undefined;
  /** True when its tools may start a shell (`shellScriptOf`): then their approvals depend on the risk rules for shells. */
  readonly startsShells?: true;
  /** Sections of the configuration that decide what its tools do: a change to one ends their approvals. */
  readonly sections?: readonly "workspace"[];
  /** Reads this kind's part of the configuration. Adds errors to `context.problems` instead of throwing. */
  readonly open: (context: Context) => OpenedKind | Promise<OpenedKind>;
}

/** Plans a call without its target. */
export type OfflinePlanner = (input: Json) => ExecutionPlan | Promise<ExecutionPlan>;

/** A kind whose configuration has not been read. */
export type DeclaredKind = TargetKind<never>;

/**
 * The entries of one kind under `systems`: those with one of `keys`, or with a fixed name. Keys of files must end in
 * `File` or `Dir`: then no tool can access the files, and a reload notices changes to them. Operators are shown `baseUrl`, `url`,
 * `endpoint`, `endpoints` or `command` as the system's address, and `tls` as its protection.
 */
export interface SystemEntries {
  readonly keys?: readonly string[];
  /** Schema of an entry that has one of the keys. */
  readonly schema?: z.ZodType;
  /** Returns the names of the claims of callers' tokens that an entry reads. */
  readonly claims?: (entry: unknown) => readonly string[];
  /** Schemas of entries with fixed names, by name. */
  readonly named?: Readonly<Record<string, z.ZodType>>;
}

/** One of the service's own files or directories, which no tool may access. */
export interface OwnPath {
  /** The configuration's name for the path. */
  readonly field: string;
  /** Absolute and without links; of a file that does not exist yet, the existing part is resolved. */
  readonly path: string;
}

/** Returns whether a path is the directory or lies below it. Both must be absolute, without links and `..`. */
export function isBelow(path: string, directory: string): boolean {
  return path === directory || path.startsWith(directory === "/" ? directory : `${directory}/`);
}

export interface TargetContext {
  /** Entries of this kind, as its schemas return them. */
  readonly systems: ReadonlyMap<string, unknown>;
  /** Errors that prevent the start, each with its field. */
  readonly problems: string[];
  readonly ownPaths: readonly OwnPath[];
  /** Real path of the service's own code. */
  readonly ownCode: string;
  /** Makes a path in the configuration absolute. */
  readonly pathOf: (path: string) => string;
  /** Reads a regular file that the configuration names. Throws an error with a `code`. */
  readonly readFile: (path: string) => Buffer;
  /** Calls `changed` when one of the files has changed, and once at the start. Returns a function that stops this. */
  readonly watchFiles: (paths: readonly string[], changed: () => void) => () => void;
  readonly now: () => EpochMs;
  /** Returns unguessable ids: `[A-Za-z0-9-]+`. */
  readonly newId: () => string;
  /** Returns a number from 0 to 1. */
  readonly random: () => number;
}

/** The members of `ToolConfig` that kinds offer to manifests. */
export type Offers = Pick<ToolConfig, "repository" | "gitDirectory" | "shellWorkspace" | "workspaceMounts">;

/** A kind with its configuration: binds tools, and reports its state to operators. */
export interface OpenedKind extends Handler {
  readonly offers?: Partial<Offers>;
  /** Facts about this machine for the log's first line. */
  readonly facts?: Readonly<Record<string, string>>;
  /** Receives the tools of this kind before they are bound. Returns why some are not registered, by tool name. */
  prepare?(tools: readonly Tool[]): Promise<ReadonlyMap<string, string>>;
  /** Returns whether the tool's system or program is broken. It has been reported; the tool is not bound. */
  isBroken?(tool: Tool): boolean;
  /** Reports on the tools of this kind, once all are bound. */
  report?(tools: readonly Tool[]): KindReport;
  /** State of each system by name, for `/readyz` and `/systems`. */
  status?(): Promise<Readonly<Record<string, SystemState>>>;
  /** Open connections, for metrics. */
  channels?(): readonly Channel[];
  /** State of the MCP servers, for metrics. */
  upstreams?(): readonly UpstreamState[];
  /** Returns why a tool is not called although it is registered; undefined when it is called. */
  quarantineOf?(tool: Tool): Quarantine | undefined;
  /** Returns when the service's own certificates expire, for metrics and `stc check`. */
  certificates?(): readonly CertificateExpiry[];
  /**
   * Returns where the system stores the values of answers, such as `shop: public.customers.email`, by path of the answer in the
   * notation of policies. Undefined: only the tool and the path of a value are known.
   */
  placesOf?(tool: Tool): AnswerPlaces;
  /**
   * Returns drafts of manifests for the tools of a system; a text when they cannot be read, undefined for a system of another kind.
   */
  drafts?(system: string, asked?: AskedDrafts): Promise<readonly ToolDraft[] | string | undefined>;
  /**
   * Asks a system for the outcome of a change that was interrupted. `evidence`: what its call recorded (`RunContext.record`). Undefined:
   * the system keeps no record, or is of another kind. Left out: none does. Throws when the system does not answer now.
   */
  resolve?(
    system: string,
    evidence: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<ChangeFinding | undefined>;
  /** Starts watching the files that may change without a reload. */
  watch?(options: WatchOptions): void;
  /** Called when the revocation list has changed: drops what belongs to callers who may have been revoked, such as their tokens. */
  revoked?(): void;
  /** Returns how the tools' processes are confined; undefined when there are none. */
  confinement?(): ConfinementShown | undefined;
}

/** A system's answer about a change whose outcome the call does not know. */
export interface ChangeFinding {
  /** `unknown`: it cannot say any more, for good. */
  readonly outcome: "committed" | "aborted" | "in progress" | "unknown";
  /** Why it is unknown. */
  readonly reason?: string;
}

export type AnswerPlaces = ReadonlyMap<string, string>;

/** An author's request for tool drafts from a system that lists no tools itself. */
export interface AskedDrafts {
  /** Statements of the author, each with a name for its tool. */
  readonly statements: readonly { readonly name: string; readonly text: string }[];
  /** Whether to draft tools that change something. */
  readonly hasChanges: boolean;
}

/** Facts about an output field besides its name. */
export interface FieldFacts {
  /** Names of the field in the system, the outer one first: `customers`, `email`. */
  readonly names?: readonly string[];
  /** Minimum protection of the field by the system's own rules. */
  readonly rule?: Exclude<FieldAction, "allow"> | undefined;
}

/** A tool that a system offers, as the draft of a data-only manifest. Its texts are the system's: untrusted, and only data. */
export interface ToolDraft {
  /** The name on the system. */
  readonly name: string;
  readonly description: string;
  readonly classification: ToolClassification;
  /** Whether the system says that the tool only reads. */
  readonly saysReadOnly: boolean;
  /** The member of `target` next to `system`. */
  readonly target: { readonly [key: string]: Json };
  /** JSON Schemas. */
  readonly input: Json;
  readonly output: Json;
  /** Comments for the manifest, in our own words. */
  readonly hints: readonly string[];
  /** Facts about output fields, by path in the notation of policies. Undefined: only the names are known. */
  readonly fields?: Readonly<Record<string, FieldFacts>> | undefined;
  /** Names of the system's object that the output belongs to, such as a table. */
  readonly partOf?: readonly string[];
  /** Remarks on the draft for its author. */
  readonly notes: readonly string[];
  /** Why no manifest can call the tool. Its schemas are empty then. */
  readonly problem?: string;
}

/** State of a system. Each kind adds members of its own. */
export interface SystemState {
  readonly state?: string;
  /** Left out by kinds that do not limit calls by system. */
  readonly calls?: CallsInFlight;
}

export interface CallsInFlight {
  /** Calls in progress, all tools together. */
  readonly inFlight: number;
  readonly max: number;
}

/** Texts of the system are bounded and escaped. */
export interface Quarantine {
  readonly reason: string;
  /** The changes of the tool's definition. */
  readonly changes: readonly string[];
}

export interface Channel {
  readonly system: string;
  readonly state: string;
}

/** Expiry of the service's own certificate for one system. */
export interface CertificateExpiry {
  readonly system: string;
  readonly notAfter: EpochMs;
}

export interface WatchOptions {
  readonly now: () => EpochMs;
  readonly report: (event: CertificateEvent) => void;
  /** Receives the events of MCP servers, and one for each tool that is quarantined already. */
  readonly upstream?: (event: UpstreamEvent) => void;
}

/** A change to the certificates of one system, for the journal and the operators' log. */
export interface CertificateEvent {
  readonly type: "certificates.changed" | "certificates.refused" | "certificates.expired";
  readonly system: string;
  /** Expiry of the proxy's own certificate, in ISO 8601. */
  readonly expiresAt: string | null;
  /** Hex SHA-256 of each root certificate (DER). */
  readonly rootSha256: readonly string[];
  /** The reason for which the new set is not used. */
  readonly reason?: string;
}

/** The state of an MCP server. */
export interface UpstreamState {
  readonly system: string;
  /** `failed`: its last start failed; `idle`: nothing uses it. */
  readonly state: "connected" | "idle" | "failed";
  readonly sessions: number;
  /** Names of quarantined tools on the server, escaped. */
  readonly quarantined: readonly string[];
}

/** An event of an MCP server, for the journal and the operators' log. Texts of the server are bounded and escaped. */
export interface UpstreamEvent {
  /** `output`: something that the server wrote, or that was refused to it. */
  readonly type: "quarantined" | "restored" | "failed" | "output";
  readonly system: string;
  readonly tool?: string;
  readonly reason: string;
  /** Changes to the tool's definition. */
  readonly changes?: readonly string[];
}

export interface ConfinementShown {
  readonly mode: "require" | "prefer" | "off";
  /** Maps each tool to `confined` or `none`. */
  readonly tools: Readonly<Record<string, string>>;
  /** Maps each tool to the problem with its confinement. */
  readonly faults: Readonly<Record<string, string>>;
}

/** Results for `stc check`. */
export interface KindReport {
  readonly contracts?: readonly ContractState[];
  /** Observations that are not errors, about the configuration. */
  readonly notes?: readonly string[];
  /** Observations that are not errors, about one tool each. */
  readonly toolNotes?: readonly ToolNote[];
  readonly problems?: readonly string[];
}

export interface ContractState {
  readonly system: string;
  readonly origin: string;
  /** Hex SHA-256 of the part that the bound tools use. */
  readonly sha256: string;
  readonly isPinned: boolean;
}

export interface ToolNote extends Fault {
  readonly tool: string;
  /** True when it says that the tool is quarantined. */
  readonly isQuarantine?: true;
}

const SYSTEM = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** Returns the errors in a manifest's target, which must be of exactly one known kind. */
export function targetFaults(manifest: Unchecked, kinds: readonly DeclaredKind[]): readonly Fault[] {
  const { target, handler } = manifest;
  const keys = kinds.map(({ key }) => key);
  if (handler !== undefined) {
    if (typeof handler !== "function") return [{ field: "handler", message: "must be a function" }];
    if (target === undefined) return [];
    if (!isTable(target)) return [{ field: "target", message: "must be an object" }];
    return [...systemFaults(target), ...unknownKeys("target", target, ["system"])];
  }
  if (!isTable(target)) return [{ field: "target", message: `must name a system and ${keys.join(", ")}` }];
  const unknown = Object.keys(target).filter((key) => key !== "system" && !keys.includes(key));
  const declared = declaredTarget(manifest, kinds);
  const isUnknown = unknown.length > 0 && !keys.some((key) => key in target);
  return [
    ...systemFaults(target),
    ...unknown.map((key) => ({
      field: `target.${key}`,
      message: `is unknown: a target is one of ${keys.join(", ")}${hint(key, keys)}`,
    })),
    ...unless(declared !== undefined || isUnknown, "target", `must have exactly one of ${keys.join(", ")}`),
    ...(declared === undefined ? [] : declared.kind.check(declared.part, manifest)),
  ];
}

function systemFaults({ system }: Unchecked): readonly Fault[] {
  return unless(isText(system) && SYSTEM.test(system), "target.system", "must name the system that the tool reaches");
}

interface DeclaredTarget {
  readonly kind: DeclaredKind;
  readonly part: unknown;
}

/** Returns the kind of a manifest's target; undefined when it has none, or more than one. */
export function declaredTarget(
  { target, handler }: Unchecked,
  kinds: readonly DeclaredKind[],
): DeclaredTarget | undefined {
  const declared = handler !== undefined ? { handler } : target;
  if (!isTable(declared)) return undefined;
  const [kind, another] = kinds.filter(({ key }) => key in declared);
  return kind === undefined || another !== undefined ? undefined : { kind, part: declared[kind.key] };
}
