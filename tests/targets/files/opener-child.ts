import { closeSync, constants, openSync } from "node:fs";
import { FOLLOW, loadCLibrary } from "../../../src/targets/files/c-library.ts";

/** Opens an existing file repeatedly while creating garbage; prints how often it was not found. */
const [folder = ".", name = "", calls = "0"] = process.argv.slice(2);

const library = loadCLibrary();
if (library === undefined) throw new Error("there is no C library that is known");
const directory = openSync(folder, constants.O_RDONLY);
const thrownAway: unknown[] = [];
let missed = 0;
for (let call = 0; call < Number(calls); call += 1) {
  const fd = library.openBeneath(directory, name, { flags: 0, resolve: FOLLOW });
  for (let at = 0; at < 4; at += 1) thrownAway[(call * 4 + at) % 64] = Buffer.from("x".repeat(name.length - 1 + at));
  if (fd < 0) missed += 1;
  else closeSync(fd);
}
console.log(missed);
