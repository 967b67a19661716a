import { fsStandIn } from "./stand-in.ts";

/** Overwrites one file, each time with another character, until it is killed. */
const [folder = ""] = process.argv.slice(2);
const stand = fsStandIn(folder);
process.stdout.write("writing\n");
for (let round = 0; ; round += 1) {
  const content = String.fromCharCode(97 + (round % 26)).repeat(200_000);
  await stand.write("@project/a.txt", content).catch(() => {});
}
