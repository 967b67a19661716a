import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { PROJECT } from "./documents.ts";

/** One instruction of a Dockerfile, its continuation lines joined. */
interface Instruction {
  readonly name: string;
  readonly rest: string;
}

type Stage = readonly Instruction[];

function instructionsOf(text: string): readonly Instruction[] {
  const lines = text
    .split("\n")
    .filter((line) => !/^\s*#/.test(line))
    .join("\n")
    .replaceAll(/\\\n/g, " ")
    .split("\n");
  return lines.flatMap((line) => {
    const [, name, rest = ""] = /^\s*([A-Za-z]+)\s+(.*)$/.exec(line) ?? [];
    return name === undefined ? [] : [{ name: name.toUpperCase(), rest: rest.trim() }];
  });
}

/** What is wrong with an image's recipe, in words. */
function imageFaults(text: string): readonly string[] {
  const all = instructionsOf(text);
  const firstFrom = all.findIndex(({ name }) => name === "FROM");
  const defaults = new Map(
    all.slice(0, firstFrom).map(({ rest }) => [rest.split("=")[0] ?? "", rest.slice(rest.indexOf("=") + 1)]),
  );
  const last: Stage = all.slice(all.findLastIndex(({ name }) => name === "FROM"));
  const restOf = (name: string): string => last.findLast((instruction) => instruction.name === name)?.rest ?? "";
  const [uid = "0"] = restOf("USER").split(":");
  const bases = all.filter(({ name }) => name === "FROM").map(({ rest }) => baseOf(rest, defaults));
  const rules: Readonly<Record<string, boolean>> = {
    "every base has an exact tag or a digest": bases.every(isPinned),
    "it is built in stages": bases.length > 1,
    "it runs as a user with a number that is not root's": /^[1-9]\d*$/.test(uid),
    "it says whether it is well": /CMD \[/.test(restOf("HEALTHCHECK")),
    "an init is its first process": /^\["[^"]*\/tini", "--", /.test(restOf("ENTRYPOINT")),
    "its command is no shell's": restOf("CMD").startsWith("["),
    "packages come without their friends, and lists go": last
      .filter(({ rest }) => rest.includes("apt-get install"))
      .every(({ rest }) => rest.includes("--no-install-recommends") && rest.includes("rm -rf /var/lib/apt/lists")),
    "nothing is fetched by hand": !all.some(({ name, rest }) => name === "ADD" || /\b(curl|wget)\b/.test(rest)),
    "only what is named is copied": !all.some(({ name, rest }) => name === "COPY" && /^(\.|\*) /.test(rest)),
    "it holds no secret": !all.some(
      ({ name, rest }) => /^(ENV|ARG)$/.test(name) && /(TOKEN|SECRET|PASSWORD|_KEY)\w*=/.test(rest),
    ),
  };
  return Object.entries(rules).flatMap(([rule, holds]) => (holds ? [] : [rule]));
}

function baseOf(rest: string, defaults: ReadonlyMap<string, string>): string {
  const [image = ""] = rest.split(" ");
  return image.replace(/^\$\{?(\w+)\}?$/, (_whole, name: string) => defaults.get(name) ?? "");
}

/** A version with at least two numbers, or a digest: what `12-slim` is changes every few weeks. */
function isPinned(image: string): boolean {
  return /@sha256:[0-9a-f]{64}$/.test(image) || /:\d+\.\d+[\w.-]*$/.test(image);
}

const DOCKERFILE = readFileSync(join(PROJECT, "Dockerfile"), "utf8");
const { scripts, engines, repository } = JSON.parse(readFileSync(join(PROJECT, "package.json"), "utf8")) as {
  readonly scripts: Readonly<Record<string, string>>;
  readonly engines: { readonly bun: string };
  readonly repository: { readonly url: string };
};

describe("the image", () => {
  test("is built by the rules", () => {
    expect(imageFaults(DOCKERFILE)).toEqual([]);
  });

  const worsened: readonly (readonly [string, string | RegExp, string])[] = [
    ["every base has an exact tag or a digest", /BASE_IMAGE=\S+/, "BASE_IMAGE=debian:12-slim"],
    ["every base has an exact tag or a digest", /BASE_IMAGE=\S+/, "BASE_IMAGE=debian"],
    ["it runs as a user with a number that is not root's", /^USER .*$/m, "USER root"],
    ["it runs as a user with a number that is not root's", /^USER .*$/m, ""],
    ["it says whether it is well", /^HEALTHCHECK.*$/m, ""],
    ["an init is its first process", '"/usr/bin/tini", "--", ', ""],
    ["its command is no shell's", 'CMD ["serve"]', "CMD serve"],
    ["packages come without their friends, and lists go", "--no-install-recommends", ""],
    ["nothing is fetched by hand", "COPY proto /app/proto", "ADD https://example.org/x /app/proto"],
    ["only what is named is copied", "COPY tools /app/tools", "COPY . /app"],
    ["it holds no secret", "DO_NOT_TRACK=1", "API_TOKEN=x"],
  ];
  test.each(worsened)("the rule applies: %s", (rule, find, replace) => {
    expect(DOCKERFILE).toMatch(find);
    expect(imageFaults(DOCKERFILE.replace(find, replace))).toEqual([rule]);
  });

  test("is built with the runtime that the project pins", () => {
    expect(DOCKERFILE).toContain(`ARG BUN_IMAGE=oven/bun:${engines.bun}-slim`);
  });

  test("names its source, version and base, and carries the licenses", () => {
    const labels = instructionsOf(DOCKERFILE).findLast(({ name }) => name === "LABEL")?.rest ?? "";
    const named = [...labels.matchAll(/org\.opencontainers\.image\.([a-z.]+)="([^"]+)"/g)];
    const values = Object.fromEntries(named.map(([, label = "", value = ""]) => [label, value]));
    expect(values).toMatchObject({
      licenses: "Apache-2.0",
      source: repository.url.replace(/^git\+|\.git$/g, ""),
      version: expect.stringContaining("VERSION"),
      revision: expect.stringContaining("REVISION"),
      "base.name": expect.stringContaining("BASE_IMAGE"),
    });
    expect(DOCKERFILE).toContain("COPY LICENSE THIRD_PARTY /usr/share/doc/safe-tool-call/");
  });

  test("copies only existing files, and the build's files are not ignored", () => {
    const allowed = readFileSync(join(PROJECT, ".dockerignore"), "utf8")
      .split("\n")
      .filter((line) => line.startsWith("!"))
      .map((line) => line.slice(1));
    const copied = instructionsOf(DOCKERFILE)
      .filter(({ name, rest }) => name === "COPY" && !rest.includes("--from="))
      .flatMap(({ rest }) => rest.split(/\s+/).slice(0, -1));
    expect(copied.filter((file) => !existsSync(join(PROJECT, file)))).toEqual([]);
    expect(copied.filter((file) => !allowed.includes(file))).toEqual([]);
    expect(allowed.filter((file) => !copied.includes(file))).toEqual([]);
  });

  test("is made of the binary that `bun run compile` makes: no settings of the working directory affect it", () => {
    const compile = scripts["compile"] ?? "";
    const [, out = ""] = /--outfile=(\S+)/.exec(compile) ?? [];
    expect(DOCKERFILE).toContain("RUN bun run compile");
    expect(DOCKERFILE).toContain(`COPY --from=build /build/${out} /usr/local/bin/stc`);
    // Without the first two, the binary contains the path of the checkout.
    const fixed = ["--define=__dirname=import.meta.dir", "--define=__filename=import.meta.path"];
    for (const flag of [
      ...fixed,
      "--no-compile-autoload-dotenv",
      "--no-compile-autoload-bunfig",
      "--compile",
      "--bytecode",
    ]) {
      expect(compile.split(" ")).toContain(flag);
    }
  });
});
