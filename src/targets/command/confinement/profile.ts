import { isAbsolute } from "node:path";
import type { Fault } from "../../../core/errors.ts";
import type { CliTarget, Confinement, Json, Tool } from "../../../core/types.ts";
import { tokenFault } from "../argv.ts";
import type { PathGrant } from "./launchers.ts";

const PATHS_MAX = 64;
const PORTS_MAX = 64;
const PORT_MAX = 65_535;

/** The files that a system's command reads by itself, and the ports of the system, from the configuration. */
export interface SystemAccess {
  readonly reads: readonly string[];
  readonly ports: readonly number[];
}

/** The access of a confined child; a part of its plan. */
export interface Confined {
  readonly level: "confined";
  readonly reads: readonly string[];
  readonly writes: readonly string[];
  /** TCP ports; `null` for no network at all. */
  readonly network: readonly number[] | null;
  readonly runs: "command" | "system";
  readonly temporaryDirectory: boolean;
  readonly [member: string]: Json;
}

/** Marks a child that only its user's permissions restrict. */
export interface Unconfined {
  readonly level: "none";
  readonly [member: string]: Json;
}

export const UNCONFINED: Unconfined = { level: "none" };

/** Returns the manifest's profile for this input. Without one, only the system's programs are accessible. */
export function declaredProfile(cli: CliTarget["cli"], input: unknown): Confinement {
  const { confinement = {} } = cli;
  return typeof confinement === "function" ? confinement(input as never) : confinement;
}

/** Resolves a profile. Its lists are sorted and without duplicates, so that equal profiles have equal text. */
export function confinedBy(
  declared: Confinement,
  { tool, systemAccess }: { readonly tool: Tool; readonly systemAccess: ReadonlyMap<string, SystemAccess> },
): Confined {
  const access = declared.network === "system" ? systemAccess.get(tool.target.system) : undefined;
  const { reads = [], writes = [], runs = "system", temporaryDirectory = false } = declared;
  const ports = declared.network === "system" ? (access?.ports ?? []) : declared.network;
  return {
    level: "confined",
    reads: sorted([...reads, ...(access?.reads ?? [])]),
    writes: sorted(writes),
    network: ports === undefined ? null : [...new Set(ports)].sort((a, b) => a - b),
    runs,
    temporaryDirectory,
  };
}

function sorted(paths: readonly string[]): readonly string[] {
  return [...new Set(paths)].sort();
}

export function profileFaults({ reads, writes, network }: Confined): readonly Fault[] {
  const field = "target.cli.confinement";
  const paths = [...reads, ...writes];
  const ports = network ?? [];
  const isPath = (path: string): boolean => tokenFault(path) === undefined && isAbsolute(path);
  const isPort = (port: number): boolean => Number.isInteger(port) && port >= 1 && port <= PORT_MAX;
  return [
    ...(paths.every(isPath) && paths.length <= PATHS_MAX
      ? []
      : [{ field, message: `must name at most ${PATHS_MAX} absolute paths` }]),
    ...(ports.every(isPort) && ports.length <= PORTS_MAX
      ? []
      : [{ field, message: `must name at most ${PORTS_MAX} ports from 1 to ${PORT_MAX}` }]),
  ];
}

/** Directories of the system's programs and shared libraries. */
export const SYSTEM_DIRECTORIES = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];
/** Dynamic loaders, which start programs that use shared libraries. */
const LOADERS = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"];
/**
 * Files that describe the machine and the command's own process, which runtimes read. The rest of `/proc` shows the
 * command lines of all processes, with other callers' scripts.
 */
const MACHINE_FILES = [
  ...["/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version"],
  ...["/proc/filesystems", "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/mmap_min_addr", "/sys/devices/system/cpu"],
  ...["/sys/kernel/mm/transparent_hugepage"],
];
const SYSTEM_FILES = [
  "/etc/ld.so.cache",
  "/etc/localtime",
  "/etc/ssl/openssl.cnf",
  "/dev/random",
  "/dev/urandom",
  "/dev/zero",
];
/** Public certificate authorities, which npm always reads. Their directories may contain keys. */
const AUTHORITY_FILES = [
  ...["/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem"],
  ...["/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"],
];
/** Files for resolving host names, and trusted certificates. */
const NETWORK_FILES = [
  ...["/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"],
  ...["/etc/gai.conf", "/etc/services"],
];
/** Port for resolving host names over TCP, used for answers that are too long for UDP. */
const DNS_PORT = 53;

export interface CommandPaths {
  readonly command: string;
  /** Temporary directory created for this child. */
  readonly temporary: string | undefined;
}

export function grantsOf(
  { reads, writes, network, runs }: Confined,
  { command, temporary }: CommandPaths,
): readonly PathGrant[] {
  const grants = (access: PathGrant["access"], paths: readonly string[]): readonly PathGrant[] =>
    paths.map((path) => ({ path, access }));
  const optional = (access: PathGrant["access"], paths: readonly string[]): readonly PathGrant[] =>
    paths.map((path) => ({ path, access, optional: true }));
  return [
    ...optional(runs === "system" ? "run" : "read", SYSTEM_DIRECTORIES),
    ...(runs === "system" ? [] : optional("run", LOADERS)),
    ...optional("read", [...SYSTEM_FILES, ...AUTHORITY_FILES, ...MACHINE_FILES]),
    ...(network === null ? [] : optional("read", NETWORK_FILES)),
    ...grants("device", ["/dev/null"]),
    ...grants("run", [command]),
    ...grants("read", reads),
    ...grants("write", temporary === undefined ? writes : [...writes, temporary]),
  ];
}

export function portsOf({ network }: Confined): readonly number[] {
  return network === null ? [] : [...network, DNS_PORT];
}
