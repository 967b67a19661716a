import type { OwnPath } from "./target-kind.ts";

/** Programs that serve the service itself: commands confine and start them, and other kinds of targets talk to them. */

/** A program that serves on its standard input and output. */
export interface ServerProgram {
  /** Absolute path. */
  readonly command: string;
  readonly argv: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly reads: readonly string[];
  readonly writes: readonly string[];
  /** TCP ports; `null` for no network at all. */
  readonly network: readonly number[] | null;
}

export interface ServerOutput {
  readonly stdout: (chunk: Uint8Array) => void;
  readonly stderr: (chunk: Uint8Array) => void;
}

export interface ServerProcess {
  /** Resolves when the program may be written to. Rejects when it cannot be started. */
  readonly ready: Promise<void>;
  /** Resolves, after all output has been read, with the way in which the program ended. */
  readonly ended: Promise<string>;
  /** Resolves when the program has taken the bytes. Rejects when it has ended. */
  write(bytes: Uint8Array): Promise<void>;
  /** Closes the program's input, and kills it if it does not end soon. */
  stop(): Promise<void>;
  /** Kills the program with everything that it started, and removes its directory. */
  kill(): Promise<void>;
}

/** Starts such programs, confined where this is possible. */
export interface ServerProcesses {
  /** Returns the absolute path of a program; undefined when there is none that may be executed. */
  find(command: string, searchPath: string): string | undefined;
  /** Returns the folder in which an interpreter is installed, above its `bin`: a virtual environment only links to it. */
  installedIn(command: string): string;
  /** Returns the own paths that a program could access through its `reads` and `writes`. */
  overlapping(program: ServerProgram, ownPaths: readonly OwnPath[]): readonly OwnPath[];
  /** Returns why such a program cannot be confined on this machine; undefined when it can. */
  problem(program: ServerProgram): Promise<string | undefined>;
  /** Starts a program in a private directory, which is also its home. Throws when no process can be started. */
  start(program: ServerProgram, isConfined: boolean, output: ServerOutput): ServerProcess;
  close(): Promise<void>;
}

export interface ServerProcessOptions {
  readonly memoryBytesMax?: number | undefined;
  /** Returns unguessable ids: `[A-Za-z0-9-]+`. */
  readonly newId: () => string;
}
