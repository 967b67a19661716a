import type { z } from "zod";
import { ManifestError } from "./errors.ts";
import { changeWord } from "./manifest/change-words.ts";
import { manifestFaults } from "./manifest/faults.ts";
import type { ScanPolicy } from "./policy/scan-policy.ts";
import type {
  Category,
  Classification,
  CliTarget,
  FsTarget,
  GrpcTarget,
  InlineContext,
  InlineTarget,
  InputPolicy,
  OutputPolicy,
  TargetErrors,
  Tool,
  ToolApproval,
  ToolLimits,
  ToolPermissions,
} from "./types.ts";

/** What the configuration offers to manifests that need it: closed lists and the places behind their names. */
export interface ToolConfig {
  /** An enum of the names in `systems.<system>.<list>`. An empty or absent list: the tool is not registered. */
  oneOf(system: string, list: string): z.ZodType<string, string>;
  /** The first name of that list, for examples. */
  sample(system: string, list: string): string;
  /** The absolute directory of the repository with that name: its work tree, or itself when it is bare. */
  repository(name: string): string;
  /** The absolute directory that git calls GIT_DIR. */
  gitDirectory(name: string): string;
  /** The text in `systems.<system>.<key>`. Absent: the tool is not registered. */
  setting(system: string, key: string): string;
  /** The absolute path that `systems.<system>.<key>` names, from the configuration's folder. Absent: the tool is not registered. */
  path(system: string, key: string): string;
  /** The absolute directory in which a shell may work. The tool is not registered where the configuration allows no shell. */
  shellWorkspace(): string;
  /** The mounts that file tools reach, such as `@project`. The tool is not registered where there is none that it could use. */
  workspaceMounts(use: "read" | "write"): readonly string[];
  /** Whether `systems.<system>.<key>` says anything: a text, a list with something in it, `true`. */
  has(system: string, key: string): boolean;
}

/** What `defineTool` takes. `I` and `O` are inferred from the Zod schemas, `N` from the keys of `lookups`. */
export interface ToolDefinition<I extends z.ZodObject, O extends z.ZodType, N extends string = string> {
  /** `[a-z][a-z0-9_]{0,63}` */
  readonly name: string;
  readonly description: string;
  readonly version?: string;
  readonly classification: Classification;
  /** Defaults by classification and target: `read`, `command` (cli), `write` (fs), `network` (grpc). */
  readonly category?: Category;
  readonly permissions: ToolPermissions<z.output<I>>;
  readonly input: I;
  readonly output: O;
  readonly outputPolicy: OutputPolicy;
  readonly inputPolicy?: InputPolicy;
  /**
   * How closely released text is looked through, by field pattern: `secrets` (the default) hides credentials, `balanced` also
   * personal data that its shape or context gives away, `strict` also what may only look like it, `off` nothing.
   */
  readonly scan?: ScanPolicy;
  readonly approval?: ToolApproval<z.output<I>>;
  /** Whether an agent hears what a gRPC or cli target says of its own failure; default `withheld`. */
  readonly errors?: TargetErrors;
  readonly target?:
    | GrpcTarget
    | CliTarget<z.output<I>, N>
    | FsTarget
    | InlineTarget<z.output<I>>
    | { readonly system: string };
  /** An inline tool in short: the same as `target: { system: "inline", handler }`. */
  readonly handler?: (input: z.output<I>, context: InlineContext) => z.input<O> | Promise<z.input<O>>;
  /** Milliseconds for planning and running together; default 30,000. */
  readonly timeoutMs?: number;
  readonly limits?: ToolLimits;
  /** Whether the same call may be sent twice without harm. */
  readonly idempotent?: boolean;
  /** Run at load: `accepts` must pass the input schema, `rejects` must not. */
  readonly examples?: { readonly accepts?: readonly z.input<I>[]; readonly rejects?: readonly unknown[] };
}

const TOOL = Symbol.for("safe-tool-call.tool");
const FACTORY = Symbol.for("safe-tool-call.tool-factory");

declare const types: unique symbol;

/** A tool that remembers, for the type checker, what goes in and what comes out. */
export interface DefinedTool<Input = unknown, Output = unknown> extends Tool {
  readonly [types]?: { readonly input: Input; readonly output: Output };
}

/** A tool that is made once the configuration is known. */
export interface ToolFactory {
  readonly make: (config: ToolConfig) => Tool;
}

/** What callers of the tool send. */
export type InputOf<T> = T extends DefinedTool<infer Input, unknown> ? Input : never;

/** What the tool's output schema yields, before the output policy. */
export type OutputOf<T> = T extends DefinedTool<unknown, infer Output> ? Output : never;

type Definition<I extends z.ZodObject, O extends z.ZodType, N extends string> = ToolDefinition<I, O, N>;

/**
 * Declares a tool. Give a function when the manifest depends on the configuration (closed lists of repositories, namespaces …).
 *
 * @throws {ManifestError} listing everything in the manifest that contradicts itself
 */
export function defineTool<I extends z.ZodObject, O extends z.ZodType, N extends string = never>(
  manifest: (config: ToolConfig) => Definition<I, O, N>,
): ToolFactory;
export function defineTool<I extends z.ZodObject, O extends z.ZodType, N extends string = never>(
  manifest: Definition<I, O, N>,
): DefinedTool<z.input<I>, z.output<O>>;
export function defineTool<I extends z.ZodObject, O extends z.ZodType, N extends string>(
  manifest: Definition<I, O, N> | ((config: ToolConfig) => Definition<I, O, N>),
): DefinedTool<z.input<I>, z.output<O>> | ToolFactory {
  if (typeof manifest !== "function") return complete(manifest);
  const factory = { make: (config: ToolConfig) => complete(manifest(config)) };
  Object.defineProperty(factory, FACTORY, { value: true });
  return Object.freeze(factory);
}

const BROKEN = Symbol("safe-tool-call.broken-tool");

/**
 * `defineTool` for files of manifests: what is wrong with a tool is kept in its place, so that the tools after it in the same
 * file are looked at, too. What it returns then is not a tool.
 */
export function defineToolInFile(manifest: Definition<z.ZodObject, z.ZodType, string>): unknown {
  try {
    return defineTool(manifest);
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    return Object.freeze({ [BROKEN]: error });
  }
}

/** What is wrong with what was to be a tool in a file. */
export function brokenTool(value: unknown): ManifestError | undefined {
  return typeof value === "object" && value !== null && BROKEN in value ? (value[BROKEN] as ManifestError) : undefined;
}

/** Branded by `Symbol.for`, so it does not matter through which path the package was loaded. */
export function isTool(value: unknown): value is Tool {
  return typeof value === "object" && value !== null && Object.hasOwn(value, TOOL);
}

export function isToolFactory(value: unknown): value is ToolFactory {
  return typeof value === "object" && value !== null && Object.hasOwn(value, FACTORY);
}

/** A gRPC target. `service` is the full name: `package.Service`. `stream` bounds what is taken of a server-streaming method. */
export function grpcMethod(
  system: string,
  service: string,
  method: string,
  options: Pick<GrpcTarget["grpc"], "stream"> = {},
): GrpcTarget {
  const dot = service.lastIndexOf(".");
  const names = { package: service.slice(0, Math.max(dot, 0)), service: service.slice(dot + 1), method };
  return { system, grpc: { ...names, ...options } };
}

/** A command target; the system is the command unless it says otherwise. */
export function cliCommand<Input, Names extends string = never>(
  command: CliTarget<Input, Names>["cli"] & { readonly system?: string },
): CliTarget<Input, Names> {
  const { system = command.command, ...cli } = command;
  return { system, cli };
}

const DEFAULTS = { timeoutMs: 30_000, outputBytesMax: 1_048_576, concurrentCallsMax: 64 } as const;

function complete<I extends z.ZodObject, O extends z.ZodType, N extends string>(
  manifest: Definition<I, O, N>,
): DefinedTool<z.input<I>, z.output<O>> {
  const faults = manifestFaults(manifest);
  if (faults.length > 0) throw new ManifestError(nameOf(manifest), faults);
  const target = targetOf(manifest);
  const tool = {
    name: manifest.name,
    description: manifest.description,
    version: manifest.version ?? "1",
    classification: manifest.classification,
    category: manifest.category ?? defaultCategory(manifest, target),
    permissions: deepFreeze({ ...manifest.permissions }),
    input: manifest.input,
    output: manifest.output,
    outputPolicy: deepFreeze({ ...manifest.outputPolicy }),
    inputPolicy: Object.freeze({ ...manifest.inputPolicy }),
    scan: Object.freeze({ ...manifest.scan }),
    approval: Object.freeze({ ...manifest.approval }),
    target: deepFreeze(target),
    errors: manifest.errors ?? "withheld",
    timeoutMs: manifest.timeoutMs ?? DEFAULTS.timeoutMs,
    limits: Object.freeze({
      outputBytesMax: manifest.limits?.outputBytesMax ?? DEFAULTS.outputBytesMax,
      concurrentCallsMax: manifest.limits?.concurrentCallsMax ?? DEFAULTS.concurrentCallsMax,
    }),
    idempotent: manifest.idempotent ?? false,
    examples: { accepts: manifest.examples?.accepts ?? [], rejects: manifest.examples?.rejects ?? [] },
  };
  Object.defineProperty(tool, TOOL, { value: true });
  // The schemas join here: from now on the input is whatever `tool.input` returned, which is what these functions take.
  return Object.freeze(tool) as unknown as DefinedTool<z.input<I>, z.output<O>>;
}

function nameOf(manifest: { readonly name?: unknown }): string {
  return typeof manifest?.name === "string" && manifest.name !== "" ? manifest.name.slice(0, 64) : "(unnamed)";
}

type AnyTarget = GrpcTarget | CliTarget | FsTarget | InlineTarget;

function targetOf<I extends z.ZodObject, O extends z.ZodType, N extends string>(
  manifest: Definition<I, O, N>,
): AnyTarget {
  const { target, handler } = manifest;
  if (handler === undefined) return { ...target } as AnyTarget;
  return { system: target?.system ?? "inline", handler } as InlineTarget;
}

function defaultCategory(manifest: Pick<Tool, "name" | "description" | "classification">, target: AnyTarget): Category {
  const isRead = manifest.classification === "read";
  if (isRead && changeWord(manifest) === undefined) return "read";
  // A contradiction asks in the mode autoEdit too.
  if ("fs" in target && !isRead) return "write";
  return "cli" in target ? "command" : "network";
}

function deepFreeze<T extends object>(value: T): T {
  for (const inner of Object.values(value)) {
    if (typeof inner === "object" && inner !== null && !Object.isFrozen(inner)) deepFreeze(inner);
  }
  return Object.freeze(value);
}
