import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { run } from "./run.ts";
import type { Source } from "./source.ts";

/** Packs the folder `name` below `staged` into a gzipped archive. The same files with the same modes give the same bytes. */
export async function packFolder(
  path: string,
  { staged, name, source }: { readonly staged: string; readonly name: string; readonly source: Source },
): Promise<string> {
  const fixed = ["--format=ustar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"];
  const time = `--mtime=@${source.epochSeconds}`;
  const tar = join(staged, "archive.tar");
  await run(["tar", "--create", ...fixed, time, "--file", tar, "--directory", staged, name]);
  mkdirSync(dirname(path), { recursive: true });
  // Bun's own compressor: its version is pinned, that of a `gzip` on the machine is not.
  writeFileSync(path, Bun.gzipSync(readFileSync(tar), { level: 6, library: "libdeflate" }));
  return path;
}
