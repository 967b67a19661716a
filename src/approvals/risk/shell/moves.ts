import { forEachChild, type SyntaxNode } from "unbash";
import { names } from "../names.ts";
import { mayClimb, partsOf } from "./place.ts";
import { HOME, UNKNOWN } from "./word.ts";

/** Where a script may stand. Paths are absolute, or `undefined` when nobody knows. */
export interface DirectoryState {
  readonly at: string | undefined;
  /** Where it stood before: `cd -`. */
  readonly before: string | undefined;
  /** What `pushd` put by, the last one first. */
  readonly stack: readonly (string | undefined)[];
}

export const NOWHERE: DirectoryState = { at: undefined, before: undefined, stack: [] };

export interface Move {
  readonly to: DirectoryState;
  /** Whether it cannot fail. */
  readonly isSure: boolean;
}

const PATH_CHARACTERS_MAX = 4_096;
const STACK_MAX = 16;

/** Where a command leads from here when it succeeds; `undefined` when it leads nowhere. */
export function moveOf(
  [program, ...args]: readonly string[],
  from: DirectoryState,
  home: string | undefined,
): Move | undefined {
  switch (program) {
    case "command":
    case "builtin":
      return /^-[vV]/.test(args[0] ?? "") ? undefined : moveOf(behindOptions(args), from, home);
    case "cd":
      return changed(behindOptions(args)[0] ?? HOME, from, home);
    case "pushd":
      return pushed(args, from, home);
    case "popd":
      return args.length > 0 ? { to: NOWHERE, isSure: false } : { to: popped(from), isSure: from.stack.length > 0 };
    default:
      return undefined;
  }
}

function behindOptions(args: readonly string[]): readonly string[] {
  const at = args.findIndex((arg) => !/^-[A-Za-z@]+$/.test(arg));
  if (at === -1) return [];
  return args[at] === "--" ? args.slice(at + 1) : args.slice(at);
}

function changed(target: string, from: DirectoryState, home: string | undefined): Move {
  const at = target === "-" ? from.before : pathOf(target, from.at, home);
  return { to: { at, before: from.at, stack: from.stack }, isSure: ALWAYS_THERE.test(target) };
}

/** The root, home, and what stands above any place. */
const ALWAYS_THERE = /^(?:\/|\u0001\/?|(?:\.{1,2}\/{0,4}){1,64})$/;

function pushed(args: readonly string[], from: DirectoryState, home: string | undefined): Move {
  const operands = args[0] === "--" ? args.slice(1) : args;
  const [target] = operands;
  if (target === undefined) {
    const [top, ...below] = from.stack;
    // With nothing put by it fails.
    const isEmpty = from.stack.length === 0;
    return { to: isEmpty ? from : { at: top, before: from.at, stack: [from.at, ...below] }, isSure: false };
  }
  if (operands.length > 1 || /^[-+]/.test(target)) return { to: NOWHERE, isSure: false };
  const { to } = changed(target, from, home);
  const isFull = from.stack.length === STACK_MAX;
  return { to: isFull ? NOWHERE : { ...to, stack: [from.at, ...from.stack] }, isSure: false };
}

function popped(from: DirectoryState): DirectoryState {
  const [top, ...below] = from.stack;
  return from.stack.length === 0 ? from : { at: top, before: from.at, stack: below };
}

/** A tilde with a name behind it is a home of somebody, or another place that is not followed. */
function pathOf(target: string, cwd: string | undefined, home: string | undefined): string | undefined {
  if (target.includes(UNKNOWN) || target.startsWith("~") || target.split("/").some(mayClimb)) return undefined;
  const parts = target.length > PATH_CHARACTERS_MAX ? undefined : partsOf(target, { cwd, home });
  const path = parts === undefined ? undefined : `/${parts.join("/")}`;
  return path === undefined || path.length > PATH_CHARACTERS_MAX ? undefined : path;
}

const MOVERS = names("cd pushd popd builtin command eval");

/** Whether anything in there could move the script. */
export function movesIn(node: SyntaxNode): boolean {
  if (node.type === "Command" && MOVERS.has(node.name?.value ?? "")) return true;
  let found = false;
  forEachChild(node, (child) => {
    found ||= movesIn(child);
  });
  return found;
}
