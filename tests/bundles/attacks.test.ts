import { afterAll, describe, expect, test } from "bun:test";
import { gunzipSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { pack, unpack } from "../../src/bundles/archive.ts";
import { manifestIn, withManifest } from "../../src/bundles/build.ts";
import { BundleError, type BundleFault } from "../../src/bundles/bundle-error.ts";
import { type Accepted, type BundleExpectations, checkBundle, checkTimestamp } from "../../src/bundles/checks.ts";
import { fileOf, keyName, readFile } from "../../src/bundles/metadata.ts";
import { sha256Hex } from "../../src/core/digest.ts";
import { BundleFleet, HOUR_MS, newKey, type Published, resigned, withSigned } from "../support/bundle-fleet.ts";

const DAY_MS = 24 * HOUR_MS;
const fleet = new BundleFleet();
const other = newKey();
const now = Date.now();
const first = fleet.make({ version: 1, createdAtMs: now });
const second = fleet.make({ version: 2, previous: first.digest, createdAtMs: now });
const third = fleet.make({ version: 3, previous: second.digest, createdAtMs: now });
const foreign = fleet.make({ version: 3, says: "other", previous: first.digest, createdAtMs: now });
afterAll(() => fleet.end());

/** A member that runs the second version. */
const accepted: Accepted = {
  version: 2,
  digest: second.digest,
  keys: [keyName(fleet.content.publicKey)],
  timestamp: {
    version: 2,
    digest: second.digest,
    createdAt: new Date(now).toISOString(),
    expires: new Date(now + HOUR_MS).toISOString(),
  },
};

interface Attempt {
  readonly offered?: Partial<Published>;
  readonly expected?: Partial<BundleExpectations>;
  readonly accepted?: Accepted | undefined;
  readonly now?: number;
}

/** Does what a member does with the two files. */
function take({ offered = {}, expected = {}, now: at = now, ...rest }: Attempt) {
  const { archive, timestamp } = { ...third, ...offered };
  const known = "accepted" in rest ? rest.accepted : accepted;
  const accepts = fleet.expected(expected);
  return checkBundle(archive, accepts, checkTimestamp(timestamp, accepts, known, at), known);
}

function refusal(run: () => unknown): { readonly fault: BundleFault; readonly message: string } {
  try {
    run();
  } catch (error) {
    if (error instanceof BundleError) return { fault: error.fault, message: error.message };
    throw error;
  }
  throw new Error("the bundle was accepted");
}

test("the next version is accepted, and so is the same one again", () => {
  expect(take({}).manifest.version).toBe(3);
  expect(take({ offered: second }).digest).toBe(second.digest);
});

test("versions may be left out", () => {
  expect(take({ accepted: { ...accepted, version: 1, digest: first.digest } }).manifest.version).toBe(3);
});

test("the same folder and options give the same bytes", () => {
  expect(fleet.make({ version: 3, previous: second.digest, createdAtMs: now }).archive).toEqual(third.archive);
});

const twoKeys = { keys: [fleet.content.publicKey, other.publicKey], threshold: 2 };
const stamped = (changes: Parameters<BundleFleet["make"]>[0]) =>
  fleet.make({ previous: second.digest, createdAtMs: now, ...changes });
const duplicate = (archive: Buffer): Buffer => {
  const text = Buffer.from(unpack(archive).get("bundle.json") ?? "").toString();
  return withManifest(archive, text.replace('"fleet":', '"fleet":"shop","fleet":'));
};

const ATTACKS: readonly (readonly [title: string, attempt: () => Attempt, fault: BundleFault, says: string])[] = [
  ["older", () => ({ offered: first }), "rollback", "version 1 is older than version 2, which was seen before"],
  [
    "older with a fresh timestamp",
    () => ({
      offered: { archive: first.archive, timestamp: fleet.timestamp({ version: 1, digest: first.digest }) },
    }),
    "rollback",
    "version 1 is older",
  ],
  [
    "older content under the newest timestamp",
    () => ({ offered: { archive: first.archive } }),
    "mixed",
    "the bundle of version 1 is not the one that timestamp.json names (version 3)",
  ],
  [
    "older than one that only its timestamp announced",
    () => ({
      offered: second,
      accepted: { ...accepted, timestamp: { ...accepted.timestamp, version: 3, digest: third.digest } },
    }),
    "rollback",
    "version 2 is older than version 3",
  ],
  [
    "below the minimum, for a new member",
    () => ({ offered: first, accepted: undefined, expected: { minVersion: 2 } }),
    "rollback",
    "version 1 is below bundle.minVersion, which is 2",
  ],
  ["frozen", () => ({ now: now + HOUR_MS + 300_001 }), "expired", "timestamp.json has expired at"],
  ["a clock one day ahead", () => ({ now: now + DAY_MS }), "expired", "timestamp.json has expired at"],
  ["a clock one day behind", () => ({ now: now - DAY_MS }), "expired", "was signed in the future"],
  [
    "an earlier timestamp of the same version",
    () => ({
      offered: second,
      accepted: {
        ...accepted,
        timestamp: { ...accepted.timestamp, createdAt: new Date(now + 1).toISOString() },
      },
    }),
    "rollback",
    "timestamp.json of version 2 is older than the one before",
  ],
  [
    "the bundle in force under a version that no later one reaches",
    () => ({
      offered: { timestamp: fleet.timestamp({ version: Number.MAX_SAFE_INTEGER, digest: second.digest }) },
    }),
    "mixed",
    "timestamp.json names version 9007199254740991 for the bundle of version 2",
  ],
  [
    "a bundle that the rollout keeps from the member, under a later version",
    () => ({
      offered: { timestamp: fleet.timestamp({ version: 9, digest: third.digest }) },
      accepted: { ...accepted, timestamp: { ...accepted.timestamp, version: 3, digest: third.digest } },
    }),
    "mixed",
    "timestamp.json names version 9 for the bundle of version 3",
  ],
  [
    "mixed: another bundle of the same version",
    () => ({ offered: { archive: foreign.archive } }),
    "mixed",
    "is not the one that timestamp.json names",
  ],
  ["mixed: another history", () => ({ offered: foreign }), "mixed", "does not follow the version 2 that is in force"],
  [
    "another bundle under a version that was seen",
    () => {
      const again = fleet.make({ version: 2, says: "again", createdAtMs: now });
      return { offered: again };
    },
    "mixed",
    "names another bundle of version 2 than before",
  ],
  [
    "mixed: a file of another version",
    () => ({
      offered: {
        archive: pack(
          new Map([
            ...unpack(third.archive),
            ["tools/hello.tool.yaml", unpack(first.archive).get("tools/hello.tool.yaml") ?? Buffer.of()],
          ]),
        ),
      },
    }),
    "mixed",
    "tools/hello.tool.yaml differs from what bundle.json lists",
  ],
  [
    "a file that is missing",
    () => {
      const files = new Map(unpack(third.archive));
      files.delete("tools/hello.tool.yaml");
      return { offered: { archive: pack(files) } };
    },
    "mixed",
    "tools/hello.tool.yaml is missing in the archive",
  ],
  [
    "a file that is not listed",
    () => ({ offered: { archive: pack(new Map([...unpack(third.archive), ["tools/more.yaml", Buffer.from("x")]])) } }),
    "mixed",
    "tools/more.yaml is not listed in bundle.json",
  ],
  [
    "of another fleet",
    () => ({ offered: stamped({ version: 3, fleet: "bank" }) }),
    "foreign",
    "is of the fleet bank, not shop",
  ],
  [
    "of another environment",
    () => ({ offered: stamped({ version: 3, environment: "production" }) }),
    "foreign",
    "is of the environment production, not test",
  ],
  [
    "of another fleet under this fleet's timestamp",
    () => {
      const { archive, digest } = stamped({ version: 3, fleet: "bank" });
      return { offered: { archive, timestamp: fleet.timestamp({ version: 3, digest }) } };
    },
    "foreign",
    "bundle.json is of the fleet bank, not shop",
  ],
  [
    "one key of two",
    () => ({ expected: twoKeys }),
    "signature",
    "bundle.json is signed by 1 of the configured keys, and needs 2",
  ],
  [
    "one key twice, instead of two",
    () => ({ expected: twoKeys, offered: { archive: withSigned(third.archive, fleet.content) } }),
    "signature",
    "is signed by 1 of the configured keys",
  ],
  [
    "an unknown key",
    () => ({ offered: stamped({ version: 3, keys: [other] }) }),
    "signature",
    "bundle.json is not signed by a configured key",
  ],
  [
    "not signed",
    () => ({ offered: stamped({ version: 3, keys: [] }) }),
    "signature",
    "bundle.json is not signed by a configured key",
  ],
  [
    "a timestamp of an unknown key",
    () => ({ offered: stamped({ version: 3, timestampKey: other }) }),
    "signature",
    "timestamp.json is not signed by a configured key",
  ],
  [
    "a timestamp of the offline key",
    () => ({ offered: stamped({ version: 3, timestampKey: fleet.content }) }),
    "signature",
    "timestamp.json is not signed by a configured key",
  ],
  [
    "signed by the online key alone",
    () => ({ offered: stamped({ version: 3, keys: [fleet.online] }) }),
    "signature",
    "bundle.json is not signed by a configured key",
  ],
  [
    "a signature over the other kind of file",
    () => {
      const { signatures, signed } = readFile(third.timestamp, "timestamp");
      const file = readFile(Buffer.from(fileOf(signed, signatures)), "bundle");
      const text = fileOf(
        file.signed,
        file.signatures.map((line) => line.replace("/timestamp", "/bundle")),
      );
      return { offered: { archive: withManifest(third.archive, text) }, expected: { keys: [fleet.online.publicKey] } };
    },
    "signature",
    "bundle.json",
  ],
  [
    "duplicate members of JSON",
    () => ({ offered: { archive: duplicate(third.archive) } }),
    "malformed",
    "bundle.json: duplicate key (in signed.fleet)",
  ],
  [
    "white space that no signature covers",
    () => ({ offered: { timestamp: Buffer.from(`${third.timestamp} `) } }),
    "malformed",
    "timestamp.json is not canonical JSON",
  ],
  [
    "numbers whose canonical text is too large",
    () => ({ offered: { timestamp: swollen() } }),
    "malformed",
    "timestamp.json is not canonical JSON",
  ],
  [
    "a format that this program does not know",
    () => ({ offered: newer({ minReader: 2 }) }),
    "reader",
    "bundle.json needs a newer version of this program: minReader is 2",
  ],
  ["a member that this program does not know", () => ({ offered: newer({ more: 1 }) }), "malformed", "bundle.json"],
  [
    "a version that is not a number that JavaScript keeps",
    () => ({
      offered: {
        timestamp: Buffer.from(third.timestamp.toString().replace('"version":3', '"version":9007199254740993')),
      },
    }),
    "malformed",
    "timestamp.json",
  ],
  [
    "code",
    () => ({ offered: stamped({ version: 3, files: { "tools/x.ts": "process.exit()" } }) }),
    "policy",
    "tools/x.ts: is code, which needs bundle.allowCode: true",
  ],
  [
    "a policy that is not YAML",
    () => ({ offered: saying("tools: [") }),
    "policy",
    "policy.yaml: Flow sequence in block collection",
  ],
  [
    "a policy whose keys move the cursor, or begin another line of the log",
    () => ({ offered: saying('"a\\e[2J\\nbundle.activated": 1') }),
    "policy",
    "policy.yaml: a\\u{1b}[2J\\u{a}bundle.activated: cannot be set by a bundle",
  ],
  [
    "a policy with thousands of keys that a bundle must not set",
    () => ({ offered: saying(Array.from({ length: 5_000 }, (_, at) => `key${at}: 1`).join("\n")) }),
    "policy",
    "policy.yaml: key0: cannot be set by a bundle; policy.yaml: key1:",
  ],
  [
    "no policy",
    () => ({ offered: { archive: Buffer.from(gzipSync(Buffer.alloc(1_024))) } }),
    "malformed",
    "the archive holds no bundle.json",
  ],
  ["nothing", () => ({ offered: { archive: Buffer.of() } }), "malformed", "the archive is not gzip"],
  [
    "a timestamp of a gigabyte",
    () => ({ offered: { timestamp: Buffer.alloc(1_048_577, " ") } }),
    "malformed",
    "timestamp.json has more than 1048576 bytes",
  ],
  [
    "huge",
    () => ({ offered: { archive: Buffer.alloc(16_777_217) } }),
    "malformed",
    "the archive has more than 16777216 bytes",
  ],
  [
    "a bomb",
    () => ({ offered: { archive: gzipSync(Buffer.alloc(60_000_000)) } }),
    "malformed",
    "the archive unpacks to more than",
  ],
];

/** The third bundle with another policy, which `stc bundle build` would refuse. */
function saying(policy: string): Published {
  const bytes = Buffer.from(policy);
  const archive = pack(new Map([...unpack(third.archive), ["policy.yaml", bytes]]));
  const file = { sha256: sha256Hex(bytes), size: bytes.length };
  return signedAgain(archive, (signed) => ({
    ...signed,
    files: { ...(signed["files"] as object), "policy.yaml": file },
  }));
}

/** A file within its bounds whose canonical text is larger than they allow. */
function swollen(): Buffer {
  const numbers = Array.from({ length: 900 }, () => "1e15").join();
  return Buffer.from(`{"signatures":[],"signed":{"a":[${numbers}],"b":"${"x".repeat(1_040_000)}"}}`);
}

function newer(changes: Readonly<Record<string, unknown>>): Published {
  return signedAgain(third.archive, (signed) => ({ ...signed, ...changes }));
}

function signedAgain(changed: Buffer, change: Parameters<typeof resigned>[1]): Published {
  const archive = resigned(changed, change, fleet.content);
  const { digest } = manifestIn(archive);
  return { archive, digest, timestamp: fleet.timestamp({ version: 3, digest }) };
}

test.each(ATTACKS)("refused: %s", (_title, attempt, fault, says) => {
  const refused = refusal(() => take(attempt()));
  expect(refused).toEqual({ fault, message: expect.stringContaining(says) });
  expect(refused.message).toMatch(/^[ -~]{1,1000}$/);
});

describe("a rotation of keys", () => {
  const both = { ...third, archive: withSigned(third.archive, other) };

  test("a second signature does not change the digest", () => {
    expect(manifestIn(both.archive).digest).toBe(third.digest);
  });

  test("a bundle with both signatures is accepted before, during and after the rotation", () => {
    for (const keys of [[fleet.content], [fleet.content, other], [other]]) {
      const publicKeys = keys.map(({ publicKey }) => publicKey);
      const expected = { keys: publicKeys, threshold: publicKeys.length };
      expect(take({ offered: both, expected }).manifest.version).toBe(3);
    }
  });

  test("while one of the former keys is configured, an older version stays refused", () => {
    const expected = { keys: [fleet.content.publicKey, other.publicKey] };
    const older = fleet.make({ version: 1, keys: [other], createdAtMs: now });
    expect(refusal(() => take({ offered: older, expected })).fault).toBe("rollback");
  });

  test("a list without any former key begins again, so that a version signed by a thief does not shut members out", () => {
    const stolen = {
      ...accepted,
      version: 9_007_199_254_740_991,
      timestamp: { ...accepted.timestamp, version: 9_007_199_254_740_991 },
    };
    const offered = fleet.make({ version: 1, keys: [other], createdAtMs: now });
    expect(take({ offered, accepted: stolen, expected: { keys: [other.publicKey] } }).manifest.version).toBe(1);
  });
});

test("a timestamp until the year 9999, signed with a stolen key, does not shut the next one out", () => {
  const timestamp = { ...accepted.timestamp, expires: "9999-12-31T23:59:59.000Z" };
  expect(take({ offered: second, accepted: { ...accepted, timestamp } }).manifest.version).toBe(2);
});

test("a clock that differs by less than five minutes is tolerated", () => {
  expect(take({ now: now + HOUR_MS + 299_000 }).manifest.version).toBe(3);
  expect(take({ now: now - 299_000 }).manifest.version).toBe(3);
});

test("an archive or a timestamp that ends early is refused, at every sixty-fourth", () => {
  for (let part = 0; part < 64; part += 1) {
    const archive = third.archive.subarray(0, Math.floor((third.archive.length * part) / 64));
    const timestamp = third.timestamp.subarray(0, Math.floor((third.timestamp.length * part) / 64));
    expect(refusal(() => take({ offered: { archive } })).fault).toBe("malformed");
    expect(refusal(() => take({ offered: { timestamp } })).fault).toBe("malformed");
  }
});

test("a tar that ends early inside a whole gzip is refused", () => {
  const tar = gunzipSync(third.archive);
  for (let part = 0; part < 64; part += 1) {
    const archive = gzipSync(tar.subarray(0, Math.floor((tar.length * part) / 64)));
    expect(["malformed", "mixed"]).toContain(refusal(() => take({ offered: { archive } })).fault);
  }
});

/** Either a refusal, or exactly what was signed: some bits of gzip mean nothing. */
function sameOrRefused(offered: Partial<Published>): boolean {
  try {
    const { files, digest } = take({ offered });
    return digest === third.digest && Bun.deepEquals(files, unpack(third.archive));
  } catch (error) {
    return error instanceof BundleError;
  }
}

function flipped(bytes: Buffer, bit: number): Buffer {
  const copy = Buffer.from(bytes);
  const at = Math.floor(bit / 8);
  copy[at] = (copy[at] ?? 0) ^ (1 << (bit % 8));
  return copy;
}

test("flipped bits never change what is accepted", () => {
  const tar = gunzipSync(third.archive);
  const bitsOf = (bytes: Buffer) => fc.integer({ min: 0, max: bytes.length * 8 - 1 });
  fc.assert(
    fc.property(bitsOf(third.archive), bitsOf(tar), bitsOf(third.timestamp), (packed, inside, stamp) => {
      expect(sameOrRefused({ archive: flipped(third.archive, packed) })).toBe(true);
      expect(sameOrRefused({ archive: gzipSync(flipped(tar, inside)) })).toBe(true);
      expect(refusal(() => take({ offered: { timestamp: flipped(third.timestamp, stamp) } })).fault).toBeTruthy();
    }),
    { seed: Number(process.env["STC_TEST_SEED"] ?? 1), numRuns: 200 },
  );
});
