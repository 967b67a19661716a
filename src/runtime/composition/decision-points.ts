import { canonical } from "../../core/digest.ts";
import { errorText } from "../../core/error-text.ts";
import { isTable } from "../../core/json.ts";
import { compileInputPolicy, sanitizeInput } from "../../core/manifest/input-policy.ts";
import type { CompiledPolicy } from "../../core/output-policy/output-policy.ts";
import type { PointState, PolicyDecision, PolicyPoint } from "../../core/policy-point.ts";
import { conditionsHold } from "../../core/rule-conditions.ts";
import type { DeclaredKind, WatchOptions } from "../../core/target-kind.ts";
import type { Json, Tool } from "../../core/types.ts";
import type { ConfiguredPoint, PointOptions } from "../../decision-points/point.ts";
import type { Detector } from "../../detection/sensitive.ts";
import { withoutSecrets } from "../../pipeline/redactor.ts";
import { type Config, entriesOf, pathFrom } from "../config/config.ts";
import { readPlainFile } from "../config/plain-file.ts";
import { callersTenant } from "../config/tenants.ts";
import { watchFiles } from "../config/watched-files.ts";
import type { Modules } from "../module-types.ts";
import type { KindCapabilities } from "./targets.ts";

interface OpeningParts extends Pick<KindCapabilities, "now" | "random"> {
  readonly monotonic: () => number;
  readonly detector: Detector;
  readonly problems: string[];
  /** The points of the configuration that is replaced: those of the same name hand on their counts. */
  readonly former?: DecisionPoints | undefined;
}

type Entry = Config["decisionPoints"][number];
type PointRequest = Parameters<ConfiguredPoint["preview"]>[0];
type Decisions = Readonly<Record<string, PolicyDecision>>;

const ARGUMENT_LIMITS = { depthMax: 32, nodesMax: 100_000, bytesMax: 1_048_576 } as const;

/** The decision points of one configuration. */
export class DecisionPoints {
  readonly #points: readonly ConfiguredPoint[];
  #toolNotes: readonly string[] = [];

  private constructor(points: readonly ConfiguredPoint[]) {
    this.#points = points;
  }

  /** Opens the points, and loads code only for those that there are. Problems are added to the list. */
  static async open(config: Config, kinds: Modules["decisionPoints"], parts: OpeningParts): Promise<DecisionPoints> {
    const { decisionPoints } = config;
    if (decisionPoints.length === 0) return NONE;
    const { ConfiguredPoint: Point, PointTally } = await import("../../decision-points/point.ts");
    const points: ConfiguredPoint[] = [];
    for (const [index, entry] of decisionPoints.entries()) {
      const kind = kinds.find(
        ({ key }) => key in entry && (entry as Readonly<Record<string, unknown>>)[key] !== undefined,
      );
      if (kind === undefined) continue;
      const settings = (entry as Readonly<Record<string, unknown>>)[kind.key];
      const opened = await kind.open(
        settings as never,
        contextOf(config, `decisionPoints[${index}].${kind.key}`, entry, parts),
      );
      if (opened === undefined) continue;
      const tally = parts.former?.tallyOf(entry.name) ?? new PointTally();
      points.push(new Point(opened, { ...optionsOf(entry, kind, parts), tenant: callersTenant(config), tally }));
    }
    return new DecisionPoints(points);
  }

  get policyPoints(): readonly PolicyPoint[] {
    return this.#points;
  }

  /** Returns whether a point may require an approval. */
  get mayAsk(): boolean {
    return this.#points.some(({ confirm }) => confirm !== undefined);
  }

  /** Prepares the points for the tools. Problems name the point. */
  prepare(tools: readonly Tool[], problems: string[]): void {
    try {
      this.#toolNotes = this.#points.flatMap((point) => point.prepare(tools));
    } catch (error) {
      problems.push(`decisionPoints: ${errorText(error)}`);
    }
  }

  /** Observations for `stc check` that are not errors. */
  get notes(): readonly string[] {
    return [...this.#points.flatMap(({ notes }) => notes), ...this.#toolNotes];
  }

  tallyOf(name: string) {
    return this.#points.find((point) => point.name === name)?.tally;
  }

  /** Returns what each point would be asked about a call, by the point's name. */
  previews(request: PointRequest): Readonly<Record<string, Json>> {
    const asked = this.#points.map((point) => [point.name, point.preview(request)] as const);
    return Object.fromEntries(asked.flatMap(([name, question]) => (question === undefined ? [] : [[name, question]])));
  }

  /** Asks the points that decide in the service about a call, and with `external` all of them. Returns decisions by name. */
  async decisions(request: PointRequest, { external }: { readonly external: boolean }): Promise<Decisions> {
    const asked = this.#points.filter(({ isRemote }) => external || !isRemote);
    const decisions = asked.map(async (point) => [point.name, await point.decide(request)] as const);
    return Object.fromEntries(await Promise.all(decisions));
  }

  states(): readonly PointState[] {
    return this.#points.map((point) => point.state());
  }

  watch(options: WatchOptions): void {
    for (const point of this.#points) point.watch(options);
  }

  /** The revocation list has changed. */
  revoked(): void {
    for (const point of this.#points) point.revoked();
  }

  async close(): Promise<void> {
    await Promise.all(this.#points.map((point) => point.close()));
  }

  static none(): DecisionPoints {
    return new DecisionPoints([]);
  }
}

const NONE = DecisionPoints.none();

/** Claims of tokens that decision points and systems read. */
export function claimsToKeep(
  config: Pick<Config, "decisionPoints" | "systems">,
  kinds: readonly DeclaredKind[],
): readonly string[] {
  const { decisionPoints } = config;
  const ofPoints =
    decisionPoints.length === 0 ? [] : ["client_id", "azp", ...decisionPoints.flatMap(({ claims }) => claims)];
  const ofSystems = kinds.flatMap((kind) =>
    [...entriesOf(config, kind).values()].flatMap((entry) => kind.systems?.claims?.(entry) ?? []),
  );
  return [...new Set([...ofPoints, ...ofSystems])];
}

/** Returns the states as `/readyz` and `/systems` show them; undefined without points. Times are counted in metrics only. */
export function statesShown(states: readonly PointState[]) {
  if (states.length === 0) return undefined;
  return states.map(({ name, kind, circuit, calls, facts, lastError, verdicts, errors }) => ({
    name,
    kind,
    circuit,
    calls,
    facts,
    verdicts,
    errors,
    lastError: lastError === undefined ? null : { at: new Date(lastError.at).toISOString(), reason: lastError.reason },
  }));
}

function contextOf(config: Config, field: string, { name, timeoutMs }: Entry, { now, random, problems }: OpeningParts) {
  return {
    name,
    field,
    timeoutMs,
    now,
    random,
    problems,
    issuers: [
      ...new Set([
        ...config.jwt.issuers.filter(({ operators }) => !operators).map(({ issuer }) => issuer),
        ...config.jwt.clientCertificates.map(({ issuer }) => issuer),
      ]),
    ],
    pathOf: (path: string) => pathFrom(config, path),
    readFile: (path: string) => readPlainFile(pathFrom(config, path)),
    watchFiles: (paths: readonly string[], changed: () => void) => {
      const watching = watchFiles(() => paths, changed);
      return () => watching.close();
    },
  };
}

type Kind = Modules["decisionPoints"][number];

function optionsOf(
  entry: Entry,
  { key: kind, isRemote }: Kind,
  parts: OpeningParts,
): Omit<PointOptions, "tally" | "tenant"> {
  const { name, timeoutMs, onAccessRequest, cacheSeconds, claims, when } = entry;
  const { now, monotonic, detector } = parts;
  const concerned = new WeakMap<Tool, boolean>();
  return {
    name,
    kind,
    isRemote,
    timeoutMs,
    onAccessRequest,
    cacheSeconds,
    claims,
    now,
    monotonic,
    concerns(tool) {
      const known = concerned.get(tool) ?? conditionsHold(when, { tool });
      concerned.set(tool, known);
      return known;
    },
    argumentsOf: argumentsSeen(entry.arguments ?? (isRemote ? "inputPolicy" : "all"), detector),
  };
}

type Seen = NonNullable<Entry["arguments"]>;

/** Returns the function that says which of a call's arguments a point sees: none where they are not known. */
function argumentsSeen(seen: Seen, detector: Detector): PointOptions["argumentsOf"] {
  const argumentsOf = knownArgumentsSeen(seen, detector);
  return (tool, input) => (input === undefined ? undefined : argumentsOf(tool, input));
}

function knownArgumentsSeen(seen: Seen, detector: Detector): PointOptions["argumentsOf"] {
  if (seen === "none") return () => undefined;
  if (seen === "all") return (_tool, input) => tableOf(canonical(input, ARGUMENT_LIMITS).value);
  const policies = new WeakMap<Tool, CompiledPolicy>();
  return (tool, input) => {
    const policy = policies.get(tool) ?? compileInputPolicy(tool.inputPolicy, tool.input);
    policies.set(tool, policy);
    const searched = withoutSecrets(input, detector).input;
    // Arguments that are too large to be searched are left out of the audit: a point would judge a call without them.
    if (isTable(input) && isTable(searched) && Object.keys(searched).length < Object.keys(input).length)
      throw new Error("the arguments are too large to be searched for secrets");
    return tableOf(canonical(sanitizeInput(policy, searched), ARGUMENT_LIMITS).value);
  };
}

function tableOf(value: Json): { readonly [name: string]: Json } {
  if (!isTable(value)) throw new Error("the arguments are not an object");
  return value as { readonly [name: string]: Json };
}
