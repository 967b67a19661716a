import { readFileSync } from "node:fs";
import { join } from "node:path";

export const CASE_FILES = ["asks", "changes", "denied", "reads"] as const;

/** Reads a file of `cases`: one script a line, with `\n` and `\\` escaped; `## ` begins a heading. */
export function casesOf(name: (typeof CASE_FILES)[number]): readonly string[] {
  return readFileSync(join(import.meta.dir, "cases", `${name}.txt`), "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("## "))
    .map((line) => line.replace(/\\(?:u[0-9a-f]{4}|.)/g, (escaped) => JSON.parse(`"${escaped}"`) as string));
}
