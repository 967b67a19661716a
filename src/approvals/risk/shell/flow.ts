import { type DirectoryState, moveOf, NOWHERE } from "./moves.ts";
import type { Parameters } from "./parameters.ts";

/** What holds when a script comes to a command. */
export interface State {
  /** Where it may stand; first where it stands when all went well. */
  readonly places: readonly DirectoryState[];
  /** `$1` and so on; `undefined` when not even their number is known. */
  readonly parameters: Parameters;
  /** `set -e`. */
  readonly stopsAtFailure: boolean;
}

/** What holds behind a command that succeeded, and behind one that failed; `undefined` where the script never comes to. */
export interface Ends {
  readonly ok: State | undefined;
  readonly failed: State | undefined;
}

export const NEVER: Ends = { ok: undefined, failed: undefined };

/** Places that are told apart. */
const PLACES_MAX = 4;

export function alike(state: State | undefined): Ends {
  return { ok: state, failed: state };
}

/** What holds when it is not known which way the script came. */
export function either(one: State | undefined, other: State | undefined): State | undefined {
  if (one === undefined || other === undefined || one === other) return one ?? other;
  return {
    places: limited(unique([...one.places, ...other.places])),
    parameters: JSON.stringify(one.parameters) === JSON.stringify(other.parameters) ? one.parameters : undefined,
    stopsAtFailure: one.stopsAtFailure && other.stopsAtFailure,
  };
}

/** What holds behind one of several. */
export function anyOf(all: readonly Ends[]): Ends {
  return {
    ok: all.map(({ ok }) => ok).reduce(either, undefined),
    failed: all.map(({ failed }) => failed).reduce(either, undefined),
  };
}

export function isSame(one: State, other: State): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

/** What holds in any later round of a loop that never comes back to where it began. */
export function widened(state: State): State {
  return { ...state, places: limited(unique([...state.places.slice(0, 1), NOWHERE])), parameters: undefined };
}

/** In another shell: what was put by here is not known there. */
export function inChild(state: State, parameters: Parameters): State {
  const places = state.places.map(({ at }) => ({ ...NOWHERE, at }));
  return { places: unique(places), parameters, stopsAtFailure: false };
}

/** Where each of some readings of one command leads. */
export function movedBy(argvs: readonly (readonly string[])[], state: State, home: string | undefined): Ends {
  const moves = argvs.flatMap((argv) => state.places.map((from) => ({ from, move: moveOf(argv, from, home) })));
  if (moves.every(({ move }) => move === undefined)) return alike(state);
  const places = moves.map(({ from, move }) => move?.to ?? from);
  const left = moves.flatMap(({ from, move }) => (move?.isSure === true ? [] : [from]));
  return {
    ok: { ...state, places: limited(unique(places)) },
    failed: left.length === 0 ? undefined : { ...state, places: unique(left) },
  };
}

function unique(places: readonly DirectoryState[]): readonly DirectoryState[] {
  return [...new Map(places.map((place) => [JSON.stringify(place), place])).values()];
}

function limited(places: readonly DirectoryState[]): readonly DirectoryState[] {
  return places.length > PLACES_MAX ? [...places.slice(0, 1), NOWHERE] : places;
}
