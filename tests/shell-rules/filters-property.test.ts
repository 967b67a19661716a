import { expect, test } from "bun:test";
import fc from "fast-check";
import { awkIsPlain, readSed } from "../../src/shell-rules/filters.ts";

const ENVIRONMENT = { PATH: "/usr/bin:/bin" };
/** GNU's alone refuses, on request, every script with a command that reads or writes files or starts programs. */
const hasSandbox = Bun.which("sed") !== null && sed("p").exitCode === 0;

const UNITS = [
  ..."s y / | [ ] ^ e 1 $ { } ; b t x g p \\ ! , # & I M 0 z F = N",
  ...[
    "w out",
    "\n",
    "a ",
    "i\\\n",
    "c\\",
    "[]",
    "[^",
    "[:",
    "[:alpha:]",
    "[.",
    "~2",
    ":a",
    " ",
    "s/x/y/",
    "/a/",
    "q5",
    "\\,a,",
  ],
];

function sed(script: string) {
  return Bun.spawnSync(["sed", "--sandbox", script, "/dev/null"], { env: ENVIRONMENT, stderr: "pipe" });
}

test.skipIf(!hasSandbox)("a script that only looks has no command that sed itself calls dangerous", () => {
  const script = fc.array(fc.constantFrom(...UNITS), { minLength: 1, maxLength: 10 }).map((units) => units.join(""));
  fc.assert(
    fc.property(script, (text) => {
      if (text.startsWith("-") || !readSed([text, "/dev/null"]).isPlain) return;
      expect(sed(text).stderr.toString()).not.toContain("sandbox");
    }),
    { numRuns: 400 },
  );
});

test("any text is read to its end", () => {
  const unit = fc.oneof(
    fc.constantFrom(...UNITS, '"', "(", ")", "print", ">", "system"),
    fc.string({ unit: "binary" }),
  );
  fc.assert(
    fc.property(fc.array(unit, { maxLength: 40 }), (units) => {
      const text = units.join("");
      const results = [awkIsPlain([text]), readSed([text]).isPlain, awkIsPlain(["-F", text, text])];
      return results.every((isPlain) => typeof isPlain === "boolean");
    }),
  );
});
