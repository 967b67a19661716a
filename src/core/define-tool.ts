import type { z } from "zod";
import { ManifestError } from "./errors.ts";
import { changeWord } from "./manifest/change-words.ts";
import { DEFAULT_LIMITS, manifestFaults } from "./manifest/faults.ts";
import type { ScanPolicy } from "./output-policy/scan-policy.ts";
import { type DeclaredKind, declaredTarget } from "./target-kind.ts";
import type {
  ApprovalPolicy,
  Category,
  DataFlow,
  InlineTarget,
  InputPolicy,
  OutputFieldPolicy,
  TargetErrors,
  Tool,
  ToolClassification,
  ToolConfig,
  ToolHandler,
  ToolLimits,
  ToolPermissions,
  ToolTarget,
} from "./types.ts";

/** The argument of `defineTool`. `I` and `O` are inferred from the Zod schemas, `N` from the keys of `lookups`. */
export interface ToolDefinition<I extends z.ZodObject, O extends z.ZodType, N extends string = string> {
  /** `[a-z][a-z0-9_]{0,63}` */
  readonly name: string;
  /** Name for people, on one line of at most 128 characters; default: the name in words. */
  readonly title?: string;
  readonly description: string;
  readonly version?: string;
  readonly classification: ToolClassification;
  /** Default: `read` for a tool that clearly only reads, otherwise what the kind of its target says. */
  readonly category?: Category;
  readonly permissions: ToolPermissions<z.output<I>>;
  readonly input: I;
  readonly output: O;
  readonly outputPolicy: OutputFieldPolicy;
  readonly inputPolicy?: InputPolicy;
  /**
   * How strictly released text is scanned, by field pattern: `secrets` (the default) hides credentials, `balanced` also hides
   * personal data recognizable by its format or context, `strict` also hides text that may only look like personal data, `off`
   * hides nothing.
   */
  readonly scan?: ScanPolicy;
  /** How data flows through the tool: what it reads, where it sends, which arguments are destinations. */
  readonly dataFlow?: DataFlow;
  readonly approval?: ApprovalPolicy<z.output<I>>;
  /** Controls whether an agent receives the text of a gRPC, HTTP or CLI target's own failure; default `withheld`. */
  readonly errors?: TargetErrors;
  readonly target?: ToolTarget<z.output<I>, N> | { readonly system: string };
  /** Shorthand for an inline tool: the same as `target: { system: "inline", handler }`. */
  readonly handler?: ToolHandler<z.output<I>, z.input<O>>;
  /** Milliseconds for planning and running together; default 30,000. */
  readonly timeoutMs?: number;
  readonly limits?: ToolLimits;
  /** True when repeating the same call does no harm. */
  readonly idempotent?: boolean;
  /** True when calls only add, and never change or remove what exists; for classification `write`. */
  readonly additive?: boolean;
  /** What one call counts in quotas of `cost`, in a unit that the operators choose; default: nothing. */
  readonly cost?: number;
  /** Checked at load: `accepts` must pass the input schema, `rejects` must fail it. */
  readonly examples?: { readonly accepts?: readonly z.input<I>[]; readonly rejects?: readonly unknown[] };
}

const TOOL = Symbol.for("safe-tool-call.tool");
const FACTORY = Symbol.for("safe-tool-call.tool-factory");

declare const types: unique symbol;

/** A tool that carries its input and output types for the type checker. */
export interface DefinedTool<Input = unknown, Output = unknown> extends Tool {
  readonly [types]?: { readonly input: Input; readonly output: Output };
}

/** Creates a tool once the configuration is known. */
export interface ToolFactory {
  /** Creates the tool with `define` (default: the maker of this factory): another build may have other kinds. */
  readonly make: (config: ToolConfig, define?: DefineTool) => Tool;
}

/** The input type that callers of the tool send. */
export type InputOf<T> = T extends DefinedTool<infer Input, unknown> ? Input : never;

/** The output type of the tool's output schema, before the output policy is applied. */
export type OutputOf<T> = T extends DefinedTool<unknown, infer Output> ? Output : never;

type Definition<I extends z.ZodObject, O extends z.ZodType, N extends string> = ToolDefinition<I, O, N>;
type AnyDefinition = Definition<z.ZodObject, z.ZodType, string>;

/**
 * Declares a tool. Pass a function when the manifest depends on the configuration, such as a list of repositories.
 *
 * @throws {ManifestError} listing every error in the manifest
 */
export interface DefineTool {
  <I extends z.ZodObject, O extends z.ZodType, N extends string = never>(
    manifest: (config: ToolConfig) => Definition<I, O, N>,
  ): ToolFactory;
  <I extends z.ZodObject, O extends z.ZodType, N extends string = never>(
    manifest: Definition<I, O, N>,
  ): DefinedTool<z.input<I>, z.output<O>>;
}

/** Returns `defineTool` for a build with these kinds of targets. */
export function createDefineTool(kinds: readonly DeclaredKind[]): DefineTool {
  function define(manifest: (config: ToolConfig) => AnyDefinition): ToolFactory;
  function define(manifest: AnyDefinition): DefinedTool<never, never>;
  function define(manifest: AnyDefinition | ((config: ToolConfig) => AnyDefinition)): Tool | ToolFactory {
    if (typeof manifest !== "function") return completeTool(manifest, kinds);
    const make: ToolFactory["make"] = (config, defined = define) => defined(manifest(config));
    return Object.freeze(Object.defineProperty({ make }, FACTORY, { value: true }));
  }
  return define;
}

const REFUSED = Symbol("safe-tool-call.refused-manifest");

/**
 * Returns `define` for manifest files. For an invalid tool it returns a placeholder with the manifest, so that the
 * other tools in the file are still checked. The build that loads the file then checks the manifest again.
 */
export function definedInFile(define: DefineTool): (manifest: AnyDefinition) => unknown {
  return (manifest) => {
    try {
      return define(manifest);
    } catch (error) {
      if (!(error instanceof ManifestError)) throw error;
      return Object.freeze({ [REFUSED]: manifest });
    }
  };
}

/** Returns the manifest of an invalid tool in a manifest file. */
export function refusedManifest(value: unknown): AnyDefinition | undefined {
  return typeof value === "object" && value !== null && REFUSED in value
    ? (value[REFUSED] as AnyDefinition)
    : undefined;
}

/** Returns whether a value is a tool. `Symbol.for` also recognizes tools of another copy of this package. */
export function isTool(value: unknown): value is Tool {
  return typeof value === "object" && value !== null && Object.hasOwn(value, TOOL);
}

export function isToolFactory(value: unknown): value is ToolFactory {
  return typeof value === "object" && value !== null && Object.hasOwn(value, FACTORY);
}

const TIMEOUT_MS = 30_000;

function completeTool(manifest: AnyDefinition, kinds: readonly DeclaredKind[]): Tool {
  const faults = manifestFaults(manifest, kinds);
  if (faults.length > 0) throw new ManifestError(nameOf(manifest), faults);
  const target = targetOf(manifest, kinds);
  const tool = {
    name: manifest.name,
    title: manifest.title ?? inWords(manifest.name),
    description: manifest.description,
    version: manifest.version ?? "1",
    classification: manifest.classification,
    category: manifest.category ?? defaultCategory(manifest, kinds),
    permissions: deepFreeze({ ...manifest.permissions }),
    input: manifest.input,
    output: manifest.output,
    outputPolicy: deepFreeze({ ...manifest.outputPolicy }),
    inputPolicy: Object.freeze({ ...manifest.inputPolicy }),
    scan: Object.freeze({ ...manifest.scan }),
    ...(manifest.dataFlow !== undefined && { dataFlow: deepFreeze({ ...manifest.dataFlow }) }),
    approval: Object.freeze({ ...manifest.approval }),
    target: deepFreeze(target),
    errors: manifest.errors ?? "withheld",
    timeoutMs: manifest.timeoutMs ?? TIMEOUT_MS,
    limits: Object.freeze({ ...DEFAULT_LIMITS, ...definedIn(manifest.limits) }),
    idempotent: manifest.idempotent ?? false,
    additive: manifest.additive ?? false,
    ...(manifest.cost !== undefined && { cost: manifest.cost }),
    examples: { accepts: manifest.examples?.accepts ?? [], rejects: manifest.examples?.rejects ?? [] },
  };
  Object.defineProperty(tool, TOOL, { value: true });
  // The only cast: the functions take the type that `tool.input` returns, and calls pass them only that.
  return Object.freeze(tool) as unknown as Tool;
}

/** Returns the limits that are set: an explicit `undefined` means the default. */
function definedIn(limits: ToolLimits = {}): ToolLimits {
  return Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined));
}

function inWords(name: string): string {
  const words = name.replaceAll("_", " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function nameOf(manifest: { readonly name?: unknown }): string {
  return typeof manifest?.name === "string" && manifest.name !== "" ? manifest.name.slice(0, 64) : "(unnamed)";
}

/** Returns the target of a valid manifest. One that names no system has its kind's name instead. */
function targetOf({ target, handler }: AnyDefinition, kinds: readonly DeclaredKind[]): Tool["target"] {
  if (handler === undefined) return { ...target } as Tool["target"];
  const system = target?.system ?? declaredTarget({ handler }, kinds)?.kind.name;
  return { system, handler } as InlineTarget;
}

/** Returns the default category. A read tool whose name or description contains a change word is not a `read`. */
function defaultCategory(manifest: AnyDefinition, kinds: readonly DeclaredKind[]): Category {
  const isRead = manifest.classification === "read";
  if (isRead && changeWord(manifest) === undefined) return "read";
  return declaredTarget({ ...manifest }, kinds)?.kind.category(isRead) ?? "network";
}

function deepFreeze<T extends object>(value: T): T {
  for (const inner of Object.values(value)) {
    if (typeof inner === "object" && inner !== null && !Object.isFrozen(inner)) deepFreeze(inner);
  }
  return Object.freeze(value);
}
