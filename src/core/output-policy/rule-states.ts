import type { FieldAction, OutputFieldPolicy } from "../types.ts";
import type { FieldPattern, Step } from "./field-path.ts";
import { advance, otherKey, startPosition, wildcard } from "./field-path.ts";

const STATES_MAX = 4_000;

export interface PolicyRule {
  /** Index in the policy; it only distinguishes rules. */
  readonly index: number;
  readonly pattern: FieldPattern;
  readonly action: FieldAction;
}

/** The progress of every rule along one path, and the winning action. Equivalent states are one object. */
export interface OutputPolicyState {
  readonly id: number;
  /** Action of the winning rule here; `undefined`: no rule covers this path. */
  readonly action: FieldAction | undefined;
  /** The keys that a rule expects as its next segment. */
  readonly awaited: ReadonlySet<string>;
  /** True when a rule names this path without a `*`, and continues to a field that it releases. */
  readonly isNamed: boolean;
  /** True when nothing here or below can be released. */
  readonly releasesNothing: boolean;
}

export interface PolicyStates {
  readonly start: OutputPolicyState;
  next(state: OutputPolicyState, step: Step): OutputPolicyState;
}

interface Progress {
  readonly live: readonly Position[];
  /** The strongest of the rules that end here or above, as it counts below this path. */
  readonly inherited: Claim | undefined;
  readonly winner: Claim | undefined;
}

interface KnownState extends OutputPolicyState {
  readonly progress: Progress;
  readonly steps: Map<Step, KnownState>;
}

interface Position {
  readonly rule: PolicyRule;
  readonly at: number;
}

/** How specifically a rule covers a path, and its action. */
interface Claim {
  readonly literals: number;
  /** True when the pattern has no `*` and names exactly this path. */
  readonly exact: boolean;
  readonly action: FieldAction;
}

const STRICTNESS: Readonly<Record<FieldAction, number>> = { allow: 0, mask: 1, redact: 2 };

/** Returns the action declared for a pattern, with or without a reason; undefined when the action is unknown. */
export function actionOf(declared: unknown): FieldAction | undefined {
  if (typeof declared === "object" && declared !== null && "action" in declared && declared.action === "allow") {
    return "allow";
  }
  return isFieldAction(declared) ? declared : undefined;
}

/** Returns the reason declared for a pattern, if there is one. */
export function reasonOf(declared: OutputFieldPolicy[string] | undefined): string | undefined {
  return typeof declared === "object" ? declared.reason : undefined;
}

function isFieldAction(action: unknown): action is FieldAction {
  return typeof action === "string" && Object.hasOwn(STRICTNESS, action);
}

export function releases(action: FieldAction | undefined): boolean {
  return action === "allow" || action === "mask";
}

/**
 * Creates the states of a policy.
 *
 * @throws {RangeError}, also from `next`, when patterns with `*` need too many states
 */
export function policyStates(rules: readonly PolicyRule[]): PolicyStates {
  const known = new Map<string, KnownState>();
  const stateOf = (progress: Progress): KnownState => {
    const name = nameOf(progress);
    const state = known.get(name) ?? newState(known.size, progress);
    if (known.size >= STATES_MAX) throw new RangeError("the policy has too many * in the middle of its patterns");
    known.set(name, state);
    return state;
  };
  const starts = rules.map((rule) => ({ rule, at: startPosition(rule.pattern) }));
  return {
    start: stateOf(progressOf(starts, undefined)),
    next: (from, step) => {
      const state = from as KnownState;
      // Keys that no rule expects all lead to the same state.
      const sameStep = typeof step === "string" && !state.awaited.has(step) ? otherKey : step;
      const found = state.steps.get(sameStep) ?? stateOf(follow(state.progress, sameStep));
      state.steps.set(sameStep, found);
      return found;
    },
  };
}

function newState(id: number, progress: Progress): KnownState {
  const { live, inherited, winner } = progress;
  const awaited = live
    .map(({ rule, at }) => rule.pattern.segments[at])
    .filter((segment) => typeof segment === "string");
  const isNamed = live.some(
    ({ rule, at }) => at > 0 && releases(rule.action) && !rule.pattern.segments.slice(0, at).includes(wildcard),
  );
  const releasesNothing = ![winner?.action, inherited?.action, ...live.map(({ rule }) => rule.action)].some(releases);
  return {
    id,
    action: winner?.action,
    awaited: new Set(awaited),
    isNamed,
    releasesNothing,
    progress,
    steps: new Map(),
  };
}

/** Returns a text that is equal for equivalent states: the same decisions here and everywhere below. */
function nameOf({ live, inherited, winner }: Progress): string {
  const positions = live.map(({ rule, at }) => `${rule.index}:${at}`).sort();
  return `${positions.join()}|${inherited?.literals}${inherited?.action}|${winner?.action}`;
}

function follow({ live, inherited }: Progress, step: Step): Progress {
  const positions = live.flatMap(({ rule, at }) => advance(rule.pattern, at, step).map((next) => ({ rule, at: next })));
  return progressOf(positions, inherited);
}

function progressOf(positions: readonly Position[], above: Claim | undefined): Progress {
  const live = new Map<string, Position>();
  let inherited = above;
  let winner = above;
  for (const position of positions) {
    const { rule, at } = position;
    if (at < rule.pattern.segments.length) {
      live.set(`${rule.index}:${at}`, position);
      continue;
    }
    const claim = { literals: rule.pattern.literals, exact: false, action: rule.action };
    inherited = stronger(inherited, claim);
    winner = stronger(winner, { ...claim, exact: !rule.pattern.hasWildcard });
  }
  return { live: [...live.values()], inherited, winner };
}

/** Returns the more specific claim: more literal keys, then the exact one, then the stricter one. */
function stronger(a: Claim | undefined, b: Claim): Claim {
  if (a === undefined) return b;
  if (a.literals !== b.literals) return a.literals > b.literals ? a : b;
  if (a.exact !== b.exact) return a.exact ? a : b;
  return STRICTNESS[a.action] >= STRICTNESS[b.action] ? a : b;
}
