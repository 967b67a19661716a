import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { runStc } from "../support/stc.ts";
import { openWorld, type World } from "../support/world.ts";
import { filesOf } from "../targets/grpc/support/descriptors.ts";
import { KINDS_FOLDER, KINDS_SET } from "../targets/grpc/support/kinds.ts";
import { knowing, type Reflecting, startReflecting } from "../targets/grpc/support/reflecting.ts";
import { writeKindsConfiguration } from "./kinds-configuration.ts";

let world: World;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

const running: Reflecting[] = [];
afterEach(() => {
  for (const server of running.splice(0)) server.close();
});

function configFile(kinds: object, field?: string): string {
  const folder = mkdtempSync(join(world.folder, "contracts-"));
  const system = { endpoint: "127.0.0.1:1", plaintext: true, ...kinds };
  return writeKindsConfiguration(folder, { issuers: world.issuers.profiles(), system, field });
}

async function check(system: object, field?: string) {
  return runStc(["check", "--config", configFile(system, field)]);
}

const SET = { descriptorSet: join(KINDS_FOLDER, "kinds.binpb") };
const PROTO = { proto: KINDS_FOLDER };
const SHA = /^contract kinds sha256:([0-9a-f]{64})$/m;

async function reflecting(): Promise<object> {
  const files = filesOf((KINDS_SET.descriptorSet as { readonly bytes: Uint8Array }).bytes);
  const server = await startReflecting({ answer: knowing(files, ["kinds.v1.Kinds"], "kinds.proto") });
  running.push(server);
  return { reflection: true, endpoint: `127.0.0.1:${server.port}` };
}

describe("stc check shows the contract", () => {
  test("by its hash, which is the same from every source", async () => {
    const all = await Promise.all([check(SET), check(PROTO), check(await reflecting())]);
    const hashes = all.map(({ out }) => SHA.exec(out)?.[1]);
    expect(hashes[0]).toMatch(/^[0-9a-f]{64}$/);
    expect(new Set(hashes).size).toBe(1);
    expect(all.map(({ code }) => code)).toEqual([0, 0, 0]);
    expect(all[2]?.out).toContain("note: systems.kinds: its contract comes from reflection and is not pinned");
    expect(all[0]?.out).not.toContain("not pinned");
  });

  test("pinned or different from the pinned one", async () => {
    const hash = SHA.exec((await check(SET)).out)?.[1] ?? "";
    const pinned = await check({ ...(await reflecting()), contractSha256: `sha256:${hash}` });
    expect(pinned.out).toContain(`contract kinds sha256:${hash} (pinned)`);
    expect(pinned.out).not.toContain("reflection");
    const wrong = await check({ ...SET, contractSha256: "0".repeat(64) });
    expect(wrong).toMatchObject({ code: 78, out: "" });
    expect(wrong.err).toContain(
      `systems.kinds.contractSha256: the contract is not the pinned one: pinned sha256:${"0".repeat(64)}`,
    );
    expect(wrong.err).toContain(`now gives sha256:${hash}`);
  });

  test("to programs", async () => {
    const { out } = await runStc(["check", "--json", "--config", configFile(SET)]);
    expect(JSON.parse(out)).toMatchObject({
      ok: true,
      contracts: [{ system: "kinds", origin: "descriptor set", sha256: expect.any(String), isPinned: false }],
      notes: expect.arrayContaining([expect.stringContaining("tool.ts: tool get_old: output.state: ")]),
    });
  });
});

describe("stc check reports problems with file, tool and field", () => {
  test.each([
    [
      "an answer's field that is not there",
      SET,
      "cuont: z.int()",
      /tool\.ts: tool get_old: output\.cuont: kinds\.v1\.Old has no such field; .*; did you mean count\?/,
    ],
    [
      "an answer's field of another type",
      PROTO,
      "count: z.string().optional()",
      /tool\.ts: tool get_old: output\.count: is string here, and number in the proto \(int32\)/,
    ],
    [
      "a descriptor set that is none",
      { descriptorSet: join(KINDS_FOLDER, "old.proto") },
      "",
      /systems\.kinds\.descriptorSet \(.*old\.proto\): /,
    ],
    [
      "a descriptor set that is nowhere",
      { descriptorSet: "nowhere.binpb" },
      "",
      /systems\.kinds\.descriptorSet: nowhere\.binpb cannot be read \(ENOENT\)/,
    ],
    [
      "reflection of nobody",
      { reflection: true },
      "",
      /systems\.kinds\.reflection: the service cannot be reached, .*descriptorSet/,
    ],
    ["two sources", { ...SET, ...PROTO }, "", /systems\.kinds\.descriptorSet: and proto exclude each other/],
    ["no source", {}, "", /systems\.kinds\.proto: is missing/],
    [
      "a pin that is no hash",
      { ...SET, contractSha256: "abc" },
      "",
      /systems\.kinds\.contractSha256: must be 64 hexadecimal digits/,
    ],
    [
      "a type for Any that is nowhere",
      { ...SET, anyTypes: ["kinds.v1.Nope"] },
      "",
      /systems\.kinds\.anyTypes: the contract has no message kinds\.v1\.Nope/,
    ],
    [
      "a type for Any written as a URL",
      { ...SET, anyTypes: ["type.googleapis.com/kinds.v1.Old"] },
      "",
      /systems\.kinds\.anyTypes\[0\]: must be the full name/,
    ],
  ] as const)("%s", async (_title, system, field, text) => {
    const { code, out, err } = await check(system, field);
    expect({ code, out }).toEqual({ code: 78, out: "" });
    expect(err).toMatch(text);
    expect(err).not.toMatch(/\n\s+at /);
  });
});
