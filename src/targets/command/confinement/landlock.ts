import { fstatSync } from "node:fs";
import { CALL, type CLibrary, cString, orThrow, pointerTo } from "./c-library.ts";
import type { SystemCall } from "./call-list.ts";
import type { PathGrant } from "./launchers.ts";

/** Rules for files, TCP ports, abstract sockets and signals that a process applies to itself. */

const VERSION = 1;
const ERRATA = 2;

/** First ABI version with scopes for signals and abstract sockets. */
export const ABI_MIN = 6;
/** Set when the kernel handles signals between the threads of one process correctly. */
const ERRATUM_SIGNALS = 2;

const RULE_PATH = 1;
const RULE_PORT = 2;
const CONNECT_TCP = 2n;
const O_PATH_CLOEXEC = 0o12000000;

const EXECUTE = 1n << 0n;
const WRITE_FILE = 1n << 1n;
const READ_FILE = 1n << 2n;
const READ_DIRECTORY = 1n << 3n;
const TRUNCATE = 1n << 14n;
/** Removing, creating and moving directories, files, pipes and links; not sockets or devices. */
const CHANGE_DIRECTORY = (1n << 4n) | (1n << 5n) | (1n << 7n) | (1n << 8n) | (1n << 10n) | (1n << 12n) | (1n << 13n);
/** All file rights of ABI 6. Handled rights that are not granted are refused. */
const HANDLED_FILES = 0xffffn;
/** Handled port rights (bind and connect) and scopes (abstract sockets and signals). */
const HANDLED_PORTS = 3n;
const HANDLED_SCOPES = 3n;

/** Signals only. */
const SIGNAL_SCOPE = 2n;

const RIGHTS = {
  read: READ_FILE | READ_DIRECTORY,
  run: READ_FILE | READ_DIRECTORY | EXECUTE,
  device: READ_FILE | WRITE_FILE,
  write: READ_FILE | READ_DIRECTORY | EXECUTE | WRITE_FILE | TRUNCATE | CHANGE_DIRECTORY,
} as const satisfies Record<PathGrant["access"], bigint>;
const RIGHTS_OF_FILES = READ_FILE | WRITE_FILE | EXECUTE | TRUNCATE;

/** Returns whether the kernel supports the required Landlock features. Kernels without Landlock return negative errnos. */
export function knowsLandlock(c: CLibrary): boolean {
  if (c.createRuleset(CALL.landlockCreate, null, 0n, VERSION) < ABI_MIN) return false;
  const errata = c.createRuleset(CALL.landlockCreate, null, 0n, ERRATA);
  return errata >= 0 && (errata & ERRATUM_SIGNALS) !== 0;
}

/** From now on, this process and its descendants cannot signal other processes. Restricts nothing else. */
export function enterSignalScope(c: CLibrary): void {
  const attributes = new BigUint64Array([0n, 0n, SIGNAL_SCOPE]);
  const ruleset = orThrow(c.createRuleset(CALL.landlockCreate, pointerTo(attributes), 24n, 0), c.errno, "signal scope");
  orThrow(c.restrictSelf(CALL.landlockRestrict, ruleset, 0), c.errno, "landlock_restrict_self for signals");
  c.close(ruleset);
}

export interface Ruleset {
  readonly descriptor: number;
  /** Applies the rules to this process and its later children. */
  restrictSelf(): void;
  drop(): void;
}

/** Builds a ruleset. Throws when a required path is missing. */
export function buildRuleset(c: CLibrary, grants: readonly PathGrant[], ports: readonly number[]): Ruleset {
  const attributes = new BigUint64Array([HANDLED_FILES, HANDLED_PORTS, HANDLED_SCOPES]);
  const ruleset = orThrow(
    c.createRuleset(CALL.landlockCreate, pointerTo(attributes), 24n, 0),
    c.errno,
    "landlock_create_ruleset",
  );
  for (const grant of grants) addPath(c, ruleset, grant);
  for (const port of ports) {
    const rule = new BigUint64Array([CONNECT_TCP, BigInt(port)]);
    orThrow(
      c.addRule(CALL.landlockAdd, ruleset, RULE_PORT, pointerTo(rule), 0),
      c.errno,
      "landlock_add_rule for a port",
    );
  }
  return {
    descriptor: ruleset,
    restrictSelf() {
      orThrow(c.restrictSelf(CALL.landlockRestrict, ruleset, 0), c.errno, "landlock_restrict_self");
    },
    drop() {
      c.close(ruleset);
    },
  };
}

function addPath(c: CLibrary, ruleset: number, { path, access, optional }: PathGrant): void {
  const descriptor = c.open(cString(path), O_PATH_CLOEXEC, 0);
  if (descriptor < 0) {
    if (optional === true) return;
    throw new Error(`${path} cannot be opened`);
  }
  const rights = fstatSync(descriptor).isDirectory() ? RIGHTS[access] : RIGHTS[access] & RIGHTS_OF_FILES;
  const rule = new DataView(new ArrayBuffer(12));
  rule.setBigUint64(0, rights, true);
  rule.setInt32(8, descriptor, true);
  const bytes = new Uint8Array(rule.buffer);
  orThrow(
    c.addRule(CALL.landlockAdd, ruleset, RULE_PATH, pointerTo(bytes), 0),
    c.errno,
    `landlock_add_rule for ${path}`,
  );
  c.close(descriptor);
}

/** Returns the calls with which another process grants itself its `/proc` entry, `own`, and applies the rules. */
export function restrictCalls({ descriptor }: Ruleset, own: string): readonly [SystemCall, SystemCall, SystemCall] {
  const rule = new BigUint64Array([RIGHTS.read, 0n]);
  const ruleAt = BigInt(pointerTo(rule));
  const ruleset = BigInt(descriptor);
  return [
    // The descriptor is the rule's second member.
    { what: own, number: CALL.open, args: [BigInt(cString(own)), BigInt(O_PATH_CLOEXEC)], resultAt: ruleAt + 8n },
    { what: `landlock_add_rule for ${own}`, number: CALL.landlockAdd, args: [ruleset, BigInt(RULE_PATH), ruleAt, 0n] },
    { what: "landlock_restrict_self", number: CALL.landlockRestrict, args: [ruleset, 0n] },
  ];
}
