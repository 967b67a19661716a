import { fsStandIn } from "./stand-in.ts";

/** Writes one file again and again, each time full of another letter, until it is killed. */
const [folder = ""] = process.argv.slice(2);
const stand = fsStandIn(folder);
process.stdout.write("writing\n");
for (let round = 0; ; round += 1) {
  const content = String.fromCharCode(97 + (round % 26)).repeat(200_000);
  await stand.write("@project/a.txt", content).catch(() => {});
}
