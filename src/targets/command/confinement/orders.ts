import type { SeccompOptions } from "./filter.ts";

/** A path that a child may use: a file, or a directory with everything below it. */
export interface PathGrant {
  /** Absolute; symbolic links are followed when the child starts. */
  readonly path: string;
  readonly access: "read" | "run" | "write" | "device";
  /** True when the path is missing on some machines. Any other missing path keeps the child from running. */
  readonly optional?: boolean;
}

/** Tells a launcher what to become: one line of JSON on its standard input. Input after this line controls a supervisor. */
export interface Orders {
  /** Starts the launcher's message when it fails. The program never sees it. */
  readonly token: string;
  /** Process id of the service: a launcher with another parent has been orphaned. */
  readonly parent: number;
  readonly grants: readonly PathGrant[];
  /** TCP ports that may be connected to. */
  readonly ports: readonly number[];
  readonly filter: SeccompOptions;
  /** CPU time of one process, over all its threads. */
  readonly cpuSeconds: number;
  /** Private writable memory of one process, including reserved memory. */
  readonly dataBytes: number;
  /** True when the launcher stays as the program's supervisor (`supervisor.ts`). */
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

/** Makes the launcher try what must not work, and report the results. */
export interface ProbeOrder {
  readonly kind: "probe";
  /** A file of the service that is not granted. */
  readonly canary: string;
  /** A port that is not granted. */
  readonly port: number;
  /** A file that is granted. */
  readonly readable: string;
}
