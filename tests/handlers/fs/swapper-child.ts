import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Swaps a directory and links that lead out for one another, until it is killed. */
const [folder = ""] = process.argv.slice(2);
const at = (name: string): string => join(folder, "project", name);
let told = false;
for (let round = 0; ; round += 1) {
  // `door` leads out, leads inside, is a directory; `name` leads out, is a file.
  symlinkSync(round % 2 === 0 ? "../outside" : "real", at("next"));
  renameSync(at("next"), at("door"));
  rmSync(at("door"));
  renameSync(at("spare"), at("door"));
  symlinkSync("../outside/file", at("next-name"));
  renameSync(at("next-name"), at("name"));
  renameSync(at("door"), at("spare"));
  writeFileSync(at("next-name"), "inside");
  renameSync(at("next-name"), at("name"));
  mkdirSync(at("spare"), { recursive: true });
  if (round % 100 === 0) writeFileSync(join(folder, "swaps"), String(round));
  if (!told) process.stdout.write("swapping\n");
  told = true;
}
