import { resolve } from "node:path";
import { run } from "./run.ts";

export const ROOT = resolve(import.meta.dir, "../..");

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly repository: { readonly url: string };
  readonly engines: { readonly bun: string };
}

export const MANIFEST = (await Bun.file(`${ROOT}/package.json`).json()) as Manifest;

/** The state of the repository that a release is built from. Everything that a release contains depends on this alone. */
export interface Source {
  readonly version: string;
  readonly commit: string;
  /** When the commit was made, in seconds: the time of every file of a release. */
  readonly epochSeconds: number;
  /** Whether files differ from the commit. Such a release is neither signed nor given a provenance. */
  readonly changed: boolean;
}

export async function sourceOf(root = ROOT): Promise<Source> {
  const git = (...args: readonly string[]): Promise<string> => run(["git", "-C", root, ...args]);
  const [commit = "", seconds] = (await git("log", "-1", "--format=%H %ct")).trim().split(" ");
  const changed = (await git("status", "--porcelain")) !== "";
  return { version: MANIFEST.version, commit, epochSeconds: Number(seconds), changed };
}
