import type { SeccompOptions } from "./filter.ts";

/** Something of the file system that a child may use: a file, or a directory with everything below it. */
export interface PathGrant {
  /** Absolute; links are followed when the child starts. */
  readonly path: string;
  readonly access: "read" | "run" | "write" | "device";
  /** Missing on some machines. Any other path that is missing keeps the child from running. */
  readonly optional?: boolean;
}

/** What a launcher is to become: one line of JSON on its standard input. What follows it is the control of a supervisor. */
export interface Orders {
  /** Begins what a launcher says when it fails. The program never sees it. */
  readonly token: string;
  /** Of the service: a launcher whose parent is another one has been orphaned. */
  readonly parent: number;
  readonly grants: readonly PathGrant[];
  /** TCP ports that may be connected to. */
  readonly ports: readonly number[];
  readonly filter: SeccompOptions;
  /** Of processor time, over all of a process's threads. */
  readonly cpuSeconds: number;
  /** Private writable memory of one process, reserved memory included. */
  readonly dataBytes: number;
  /** Whether the launcher stays as the program's supervisor (`supervisor.ts`). */
  readonly isSupervised?: boolean;
  readonly act: ProgramOrder | ProbeOrder;
}

export interface ProgramOrder {
  readonly kind: "program";
  readonly command: string;
  readonly argv: readonly string[];
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
}

/** Tries what must not work, and reports. */
export interface ProbeOrder {
  readonly kind: "probe";
  /** A file of the service's that is not granted. */
  readonly canary: string;
  /** A port that is not granted. */
  readonly port: number;
  /** A file that is granted. */
  readonly readable: string;
}
