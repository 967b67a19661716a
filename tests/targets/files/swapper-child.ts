import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Swaps a directory with links that lead out, until it is killed. */
const [folder = ""] = process.argv.slice(2);
const at = (name: string): string => join(folder, "project", name);
/** A writer under attack may have created a file with one of these names: removes it and continues. */
const attempt = (work: () => void): void => {
  try {
    work();
  } catch {
    for (const name of ["swapped", "next", "next-name"]) rmSync(at(name), { recursive: true, force: true });
  }
};
for (let round = 0; ; round += 1) {
  // `swapped` leads out, leads inside, is a directory; `name` leads out, is a file.
  attempt(() => {
    symlinkSync(round % 2 === 0 ? "../outside" : "real", at("next"));
    renameSync(at("next"), at("swapped"));
    rmSync(at("swapped"));
    renameSync(at("spare"), at("swapped"));
    symlinkSync("../outside/file", at("next-name"));
    renameSync(at("next-name"), at("name"));
    renameSync(at("swapped"), at("spare"));
    writeFileSync(at("next-name"), "inside");
    renameSync(at("next-name"), at("name"));
  });
  mkdirSync(at("spare"), { recursive: true });
  attempt(() => writeFileSync(join(at("spare"), "file"), "inside"));
  if (round % 10 === 0) writeFileSync(join(folder, "swaps"), String(round));
  if (round === 10) process.stdout.write("swapping\n");
}
