import { afterAll, expect, test } from "bun:test";
import { pack, unpack } from "../../src/bundles/archive.ts";
import { timestampOf } from "../../src/bundles/build.ts";
import { BundleError } from "../../src/bundles/bundle-error.ts";
import { assertSeparateKeys, checkTimestamp } from "../../src/bundles/checks.ts";
import { BundleFleet, HOUR_MS, newKey, type Published } from "../support/bundle-fleet.ts";

const fleet = new BundleFleet();
afterAll(() => fleet.end());

const now = Date.now();
const first = fleet.make({ version: 1, createdAtMs: now - HOUR_MS });
const second = fleet.make({ version: 2, previous: first.digest, createdAtMs: now - HOUR_MS });

function signed(archive: Uint8Array, former?: Uint8Array): ReturnType<typeof timestampOf> {
  const createdAt = new Date(now).toISOString();
  const expires = new Date(now + HOUR_MS).toISOString();
  return timestampOf(archive, { former, createdAt, expires }, fleet.online);
}

function refusal(run: () => unknown): Pick<BundleError, "fault" | "message"> {
  try {
    run();
  } catch (error) {
    if (error instanceof BundleError) return { fault: error.fault, message: error.message };
    throw error;
  }
  throw new Error("was accepted");
}

function damaged({ archive }: Published): Buffer {
  return pack(new Map([...unpack(archive), ["tools/hello.tool.yaml", Buffer.from("name: other\n")]]));
}

test.each([
  ["the first one", undefined],
  ["after an older version", first.timestamp],
  ["again for the same version", second.timestamp],
  ["after one that another key has signed", fleet.timestamp({ ...second, version: 9, timestampKey: newKey() })],
  ["after a damaged one", Buffer.from("{")],
])("a timestamp is signed: %s", (_title, former) => {
  const { text } = signed(second.archive, former);
  expect(checkTimestamp(Buffer.from(text), fleet.expected(), undefined, now)).toMatchObject({ version: 2 });
});

test.each([
  ["a file that the bundle does not list so", () => signed(damaged(second)), "mixed", "differs from what"],
  ["an older version", () => signed(first.archive, second.timestamp), "rollback", "version 1 is older than version 2"],
  [
    "other content under the same version",
    () => signed(fleet.make({ version: 2, says: "other" }).archive, second.timestamp),
    "mixed",
    "names another bundle of version 2",
  ],
  [
    "another fleet",
    () => signed(fleet.make({ version: 3, fleet: "other" }).archive, second.timestamp),
    "foreign",
    "is of the fleet other, not shop",
  ],
] as const)("no timestamp is signed for %s", (_title, run, fault, message) => {
  expect(refusal(run)).toEqual({ fault, message: expect.stringContaining(message) });
});

test("one key must not sign both the content and the timestamp", () => {
  const timestampKeys = [newKey().publicKey, fleet.content.publicKey];
  expect(refusal(() => assertSeparateKeys(fleet.expected({ timestampKeys }))).fault).toBe("signature");
  expect(() => assertSeparateKeys(fleet.expected())).not.toThrow();
});
