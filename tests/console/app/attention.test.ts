import { describe, expect, test } from "bun:test";
import { CHECKED_PARTS } from "../../../src/console/app/home/attention.ts";
import type { ExporterShown } from "../../../src/core/api/audit.ts";
import type { SystemsShown } from "../../../src/core/api/inventory.ts";

const NOW_MS = Date.parse("2026-03-10T12:30:00Z");
const at = (ms: number): string => new Date(NOW_MS + ms).toISOString();
const [MINUTE_MS, DAY_MS] = [60_000, 86_400_000];

function judged(title: string, answer: unknown) {
  const found = CHECKED_PARTS.find((subject) => subject.title === title);
  if (found === undefined) throw new Error(`no subject ${title}`);
  return found.judge(answer, NOW_MS);
}

const texts = (title: string, answer: unknown) =>
  judged(title, answer).needs.map(({ tone, text }) => `${tone}: ${text}`);

describe("systems", () => {
  const fine: SystemsShown = {
    ...{ systems: [], listeners: [], certificates: [], notes: [], reasons: [], audit: { status: "ok" } },
  };
  const system = { name: "shop", kind: "http", addresses: [], tls: "none", tools: [] } as const;
  const bundle: NonNullable<SystemsShown["bundle"]> = {
    ...{ version: 4, digest: "0".repeat(64), offered: 4, expires: at(DAY_MS), lastError: null, fault: null },
    state: "current",
  };
  const listener = { listener: "console", addresses: [], tls: "server", clientCertificates: "none" } as const;

  test.each<[string, Partial<SystemsShown>, string[]]>([
    ["all is well", { systems: [{ ...system, state: "READY", circuit: "closed" }] }, []],
    [
      "the service is not ready",
      { reasons: ["audit_unavailable"] },
      ["bad: The service accepts no calls now: audit_unavailable."],
    ],
    [
      "the audit cannot be written",
      { audit: { status: "failing", reason: "EIO" } },
      ["bad: The audit cannot be written: EIO"],
    ],
    [
      "a circuit is open",
      { systems: [{ ...system, circuit: "open", health: "NOT_SERVING" }] },
      ["bad: Calls to the system shop may fail: circuit open, health: not_serving."],
    ],
    [
      "a certificate is near its end",
      { certificates: [{ system: "shop", expiresAt: at(3 * DAY_MS) }] },
      ["warn: The certificate for the system shop expires in 3 d 0 h."],
    ],
    [
      "a certificate has expired",
      { listeners: [{ ...listener, certificateExpiresAt: at(-1) }] },
      ["bad: The certificate of the console listener has expired."],
    ],
    ["certificates last", { listeners: [{ ...listener, certificateExpiresAt: at(15 * DAY_MS) }] }, []],
    [
      "the list of revoked tokens is old",
      { revocations: { status: "stale" } },
      ["warn: The list of revoked tokens is out of date."],
    ],
    ["the newest bundle is in force", { bundle }, []],
    ["a rollout keeps the bundle back, or its server is away", { bundle: { ...bundle, state: "unreachable" } }, []],
    [
      "a bundle was refused",
      { bundle: { ...bundle, state: "refused", lastError: "no known key has signed it", fault: "signature" } },
      ["warn: The newest bundle of the fleet was refused, version 4 stays in force: no known key has signed it"],
    ],
    [
      "a bundle has expired",
      { bundle: { ...bundle, state: "expired" } },
      ["warn: The bundle of the fleet has expired, version 4 stays in force: nobody has renewed its timestamp."],
    ],
    [
      "members have current and held bundles",
      {
        members: {
          connected: 3,
          bundles: [
            { state: "current", members: 2 },
            { state: "held", members: 1 },
          ],
        },
      },
      [],
    ],
    [
      "members have refused a bundle, and those of others have expired",
      {
        members: {
          connected: 3,
          bundles: [
            { state: "refused", members: 1 },
            { state: "expired", members: 2 },
          ],
        },
      },
      [
        "warn: The newest bundle of the fleet was refused by 1 connected member.",
        "warn: The bundle of 2 connected members has expired.",
      ],
    ],
  ])("%s", (_, given, wanted) => {
    expect(texts("Systems", { ...fine, ...given })).toEqual(wanted);
  });
});

describe("exporters", () => {
  const exporter: ExporterShown = {
    ...{ exporter: "archive", stream: "calls", failingSince: null, lastAcceptedAt: null, bytesBehind: 0 },
    ...{ secondsBehind: null, sentLines: 0, deadLines: 0, failures: 0, conflicts: 0 },
  };

  test.each<[string, readonly Partial<ExporterShown>[], string[]]>([
    ["up to date", [{}], []],
    [
      "failing streams of one exporter are one need",
      [
        { failingSince: at(-5 * MINUTE_MS), bytesBehind: 1_500 },
        { stream: "journal", failingSince: at(-MINUTE_MS), bytesBehind: 500 },
      ],
      ["bad: The exporter archive has failed for 5 min 00 s: 2.0 kB wait."],
    ],
    [
      "behind",
      [{ bytesBehind: 10, secondsBehind: 90 }],
      ["warn: The exporter archive is 1 min 30 s behind: 10 bytes wait."],
    ],
    [
      "behind with checkpoints alone",
      [{}, { stream: "checkpoints", bytesBehind: 10, secondsBehind: 90 }],
      ["warn: The exporter archive is 1 min 30 s behind: 10 bytes wait."],
    ],
    ["not behind yet", [{ bytesBehind: 10, secondsBehind: 60 }], []],
    ["rejected lines", [{ deadLines: 2 }], ["warn: The exporter archive: its receiver has rejected 2 lines."]],
    ["the log cannot be read", [{ bytesBehind: null }], ["bad: The exporter archive cannot read the log."]],
  ])("%s", (_, exporters, wanted) => {
    expect(texts("Export of the audit", { exporters: exporters.map((one) => ({ ...exporter, ...one })) })).toEqual(
      wanted,
    );
  });
});

describe("refusals rose", () => {
  const counted = (...refusals: readonly [name: string, calls: number][]) => ({ calls: 100, refusals });

  test.each<[string, number, number, boolean]>([
    ["few are chance", 9, 0, false],
    ["ten more, and at least twice as many", 10, 0, true],
    ["ten more, but not twice as many", 50, 40, false],
    ["twice as many", 80, 40, true],
    ["fewer", 10, 100, false],
  ])("%s: %i, before %i", (_, now, before, isShown) => {
    const compared = {
      now: counted(["PERMISSION_DENIED authorize erase", now]),
      before: counted(["PERMISSION_DENIED authorize erase", before]),
    };
    expect(judged("Refusals", compared).needs.length).toBe(isShown ? 1 : 0);
  });

  test("tools and stages of one code are summed up; the tool with the most is named, and the calls are linked", () => {
    const now = counted(["HALTED halt erase all", 8], ["HALTED halt list", 5], ["INVALID_INPUT input list", 3]);
    const { needs } = judged("Refusals", { now, before: counted(["HALTED halt list", 1]) });
    expect(needs).toEqual([
      {
        tone: "warn",
        text: 'HALTED rose to 13 calls in the last hour, from 1 in the same hour yesterday, most of them to "erase all". Operators have halted such calls.',
        href: "#/calls?from=1h&code=HALTED",
      },
    ]);
  });
});

test("halts say what they stop; a halt of everything comes before the others", () => {
  const halt = {
    id: "h",
    reason: "a leak",
    cancelRunning: false,
    setBy: { issuer: "i", subject: "olga" },
    setAt: at(-MINUTE_MS),
  };
  const halts = [
    { ...halt, kind: "caller", issuer: "i", subject: "agent-7" },
    { ...halt, kind: "all" },
    { ...halt, kind: "all", tenant: "acme" },
    // Halts of the service, as operators of a tenant see them.
    ...["caller", "session"].map((kind) => ({ ...halt, kind, setBy: undefined, reason: undefined, ofService: true })),
  ];
  expect(texts("Halts", { halts, state: { scope: "shared", status: "stale", active: 2 } })).toEqual([
    "bad: The halts cannot be read from the database.",
    "warn: The caller agent-7 is halted by olga, 1 min ago: a leak",
    "bad: All calls are halted by olga, 1 min ago: a leak",
    "warn: In the tenant acme, all calls are halted by olga, 1 min ago: a leak",
    "warn: A caller is halted by the service's operators, 1 min ago.",
    "warn: A session is halted by the service's operators, 1 min ago.",
  ]);
});

test("a quarantined tool leads to its page, and tools that were not loaded to the list", () => {
  const tools = [
    { name: "list", isQuarantined: false },
    { name: "erase", isQuarantined: true },
  ];
  expect(judged("Tools", { tools, notRegistered: ["a.yaml: broken"] }).needs.map(({ href }) => href)).toEqual([
    "#/tools/erase",
    "#/tools",
  ]);
});
