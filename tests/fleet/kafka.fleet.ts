import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { logIdIn } from "../../src/audit/chain/log-id.ts";
import { Exporter } from "../../src/audit/export/exporter.ts";
import { EXPORT_STREAMS } from "../../src/audit/export/positions.ts";
import type { Receiver } from "../../src/audit/export/receiver.ts";
import { openAuditStore } from "../../src/audit/store/open-store.ts";
import { dayFilesText } from "../support/audit-files.ts";
import { openKafka, type WrittenKafka } from "../support/kafka-receiver.ts";
import { findPostgres, startPostgres } from "../support/postgres.ts";
import { environmentOf, STC } from "../support/stc.ts";
import { DAYS, exportLog, NOW, writeReplica } from "../support/stored-logs.ts";
import { until } from "../support/until.ts";
import { type Arrived, fetchKafka, Kafka, PASSWORD, USER } from "./kafka.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-to-kafka-"));
const kafka = new Kafka();
const closing: (() => Promise<unknown> | undefined)[] = [];
beforeAll(async () => {
  await fetchKafka();
  await kafka.create();
}, 600_000);
afterAll(async () => {
  for (const close of closing.reverse()) await close();
  await kafka.end();
  rmSync(folder, { recursive: true, force: true });
});

function opened(settings: Partial<WrittenKafka> & { readonly topic: string }): Receiver {
  const receiver = openKafka({ brokers: [kafka.broker], plaintext: true, ...settings });
  closing.push(() => receiver.close?.());
  return receiver;
}

const never = new AbortController().signal;

/** A header of a message. */
function header({ headers }: Arrived, name: string): string {
  return headers.get(name) ?? "";
}

/** Returns the messages of a log in their order, each once. */
function linesOf(messages: readonly Arrived[], log: string, stream: string): readonly string[] {
  const found = new Map<string, string>();
  for (const message of messages) {
    if (header(message, "log") !== log || header(message, "stream") !== stream) continue;
    const key = `${header(message, "seq")} ${header(message, "hash")}`;
    if (!found.has(key)) found.set(key, message.value);
  }
  return [...found.values()];
}

function fileLines(dir: string, stream: "calls" | "journal"): readonly string[] {
  return dayFilesText(stream === "calls" ? dir : join(dir, "journal"))
    .trimEnd()
    .split("\n");
}

test("each line arrives unchanged and in order in one partition for each log, with its key in headers", async () => {
  await kafka.createTopic("lines", 8);
  const dirs = [writeReplica(folder, 0, 1_200), writeReplica(folder, 1, 600)];
  for (const [index, dir] of dirs.entries())
    await exportLog(dir, opened({ topic: "lines", compression: index === 0 ? "gzip" : "zstd" }));
  const count = 1_200 + 200 + 600 + 100;
  const messages = await kafka.read("lines", ({ length }) => length === count);
  for (const dir of dirs) {
    for (const stream of ["calls", "journal"] as const) {
      const log = logIdIn(dir, stream) ?? "";
      expect(linesOf(messages, log, stream)).toEqual(fileLines(dir, stream));
      const own = messages.filter((message) => message.key === `${log} ${stream}`);
      expect(new Set(own.map(({ partition }) => partition)).size).toBe(1);
      expect(own.map((message) => header(message, "seq"))).toEqual(own.map((_, index) => String(index)));
      const [first] = own;
      const { hash } = JSON.parse(first?.value ?? "");
      expect(Object.fromEntries(first?.headers ?? [])).toEqual({
        ...{ log, stream, seq: "0", day: DAYS[0], hash, place: `${DAYS[0]}:0` },
      });
    }
  }
});

test("a broker that is killed in the middle and started again loses no line", async () => {
  await kafka.createTopic("killed", 3);
  const dir = writeReplica(folder, 2, 6_000);
  const receiver = opened({ topic: "killed" });
  const reports: string[] = [];
  const exporter = new Exporter({
    ...{ dir, stream: "calls", target: { name: "kafka", receiver }, clock: () => NOW, random: () => 0 },
    ...{ report: (message: string) => reports.push(message), pollMs: 5, backoffMs: 5 },
  });
  try {
    await until("the first lines", () => (exporter.state().sentLines >= 1_000 ? true : undefined));
    await kafka.kill();
    await until("a failure", () => (exporter.state().failures > 0 ? true : undefined));
    await kafka.start();
    await until("the end of the log", () => (exporter.state().bytesBehind === 0 ? true : undefined));
  } finally {
    await exporter.stop();
  }
  expect(exporter.state()).toMatchObject({ sentLines: 6_000, deadLines: 0 });
  expect(reports.some((report) => report.startsWith("kafka does not accept the audit's calls: "))).toBe(true);
  const log = logIdIn(dir, "calls") ?? "";
  const isLast = (messages: readonly Arrived[]) => messages.some((message) => header(message, "seq") === "5999");
  expect(linesOf(await kafka.read("killed", isLast), log, "calls")).toEqual(fileLines(dir, "calls"));
}, 300_000);

test("a line that is larger than the broker accepts is a dead letter, and those around it arrive", async () => {
  // No line of a log exceeds the limit that brokers have when nobody changed it.
  await kafka.createTopic("large", 1, { "max.message.bytes": "20000" });
  const dir = writeReplica(folder, 3, 20);
  // Random, so that compression does not help.
  const large = JSON.stringify({ text: crypto.getRandomValues(new Uint8Array(30_000)).toBase64() });
  const file = join(dir, `${DAYS[1]}.jsonl`);
  const after = readFileSync(join(dir, `${DAYS[0]}.jsonl`), "utf8").split("\n")[0];
  appendFileSync(file, `${large}\n${after}\n`);
  const receiver = opened({ topic: "large" });
  const reports: string[] = [];
  const exporter = new Exporter({
    ...{ dir, stream: "calls", target: { name: "kafka", receiver }, clock: () => NOW, random: () => 0 },
    ...{ report: (message: string) => reports.push(message), pollMs: 5, backoffMs: 5 },
  });
  try {
    await until("the end of the log", () => (exporter.state().bytesBehind === 0 ? true : undefined));
  } finally {
    await exporter.stop();
  }
  expect(exporter.state()).toMatchObject({ sentLines: 21, deadLines: 1 });
  expect(reports).toEqual(["kafka refused 1 audit lines permanently: MESSAGE_TOO_LARGE"]);
  const dead = JSON.parse(readFileSync(join(dir, "export/kafka.dead.jsonl"), "utf8"));
  expect(dead).toMatchObject({ exporter: "kafka", reason: "MESSAGE_TOO_LARGE", stream: "calls", line: large });
  const arrived = (await kafka.read("large", ({ length }) => length >= 21)).map(({ value }) => value);
  expect(new Set(arrived)).toEqual(new Set(fileLines(dir, "calls").filter((line) => line !== large)));
});

describe("credentials", () => {
  const file = (content: string): string => {
    const path = join(mkdtempSync(join(folder, "user-")), "user");
    writeFileSync(path, content);
    return path;
  };
  const taken = { kind: "taken", rejected: 0 } as const;
  const secured = (mechanism: "plain" | "scram-sha-512" | "scram-sha-256", basicFile: string): Receiver =>
    opened({
      ...{ topic: "secured", brokers: [kafka.saslBroker], plaintext: undefined },
      ...{ tls: { rootCert: kafka.rootCert }, sasl: { mechanism, basicFile } },
    });
  beforeAll(() => kafka.createTopic("secured", 1));

  test.each(["plain", "scram-sha-512"] as const)("right ones with %s", async (mechanism) => {
    expect(await secured(mechanism, file(`${USER}:${PASSWORD}\n`)).deliver([], never)).toEqual(taken);
  });

  test.each(["plain", "scram-sha-512"] as const)(
    "wrong ones with %s are named, and new ones used without a restart",
    async (mechanism) => {
      const path = file(`${USER}:wrong\n`);
      const receiver = secured(mechanism, path);
      const reason = "SASL_AUTHENTICATION_FAILED";
      expect(await receiver.deliver([], never)).toEqual({ kind: "later", reason, retryAfterMs: undefined });
      writeFileSync(path, `${USER}:${PASSWORD}\n`);
      expect(await receiver.deliver([], never)).toEqual(taken);
    },
  );

  test("a mechanism that the broker does not offer is named", async () => {
    const outcome = await secured("scram-sha-256", file(`${USER}:${PASSWORD}`)).deliver([], never);
    expect(outcome).toMatchObject({ kind: "later", reason: expect.stringMatching(/SASL|SCRAM-SHA-256/) });
  });

  test("a client certificate", async () => {
    const { rootCert, clientCert, clientKey } = kafka;
    const at = { topic: "secured", brokers: [kafka.mutualBroker], plaintext: undefined };
    expect(await opened({ ...at, tls: { rootCert, clientCert, clientKey } }).deliver([], never)).toEqual(taken);
    expect(await opened({ ...at, tls: { rootCert } }).deliver([], never)).toMatchObject({ kind: "later" });
  });

  test("a broker whose certificate nobody trusts gets nothing", async () => {
    const at = { topic: "secured", brokers: [kafka.mutualBroker], plaintext: undefined };
    const outcome = await opened({ ...at, tls: {} }).deliver([], never);
    expect(outcome).toMatchObject({ kind: "later", reason: expect.stringMatching(/CERT|ISSUER|VERIFY/) });
  });
});

test("a topic that is missing makes the lines wait, and is not created", async () => {
  const [receiver, later] = [opened({ topic: "missing" }), { kind: "later", reason: "Unknown topic missing." }];
  expect(await receiver.deliver([], never)).toMatchObject(later);
  expect(await receiver.deliver([], never)).toMatchObject(later);
  await kafka.createTopic("missing", 1);
  expect(await receiver.deliver([], never)).toEqual({ kind: "taken", rejected: 0 });
});

test("the streams of one exporter share its producer", async () => {
  await kafka.createTopic("shared", 2);
  const dir = writeReplica(folder, 4, 900);
  const receiver = opened({ topic: "shared" });
  const exporters = EXPORT_STREAMS.map(
    (stream) =>
      new Exporter({
        ...{ dir, stream, target: { name: "kafka", receiver }, clock: () => NOW, random: () => 0 },
        ...{ report: () => {}, pollMs: 5, backoffMs: 5 },
      }),
  );
  try {
    await until("the end of both streams", () =>
      exporters.every((exporter) => exporter.state().bytesBehind === 0) ? true : undefined,
    );
  } finally {
    for (const exporter of exporters) await exporter.stop();
  }
  const messages = await kafka.read("shared", ({ length }) => length >= 900 + 150);
  for (const stream of ["calls", "journal"] as const)
    expect(linesOf(messages, logIdIn(dir, stream) ?? "", stream)).toEqual(fileLines(dir, stream));
});

test("stc audit import brings the lines from the topic into PostgreSQL, also when it is killed in the middle", async () => {
  await kafka.createTopic("to-store", 3);
  const dirs = [writeReplica(folder, 5, 4_000), writeReplica(folder, 6, 1_000)];
  for (const dir of dirs) await exportLog(dir, opened({ topic: "to-store" }));
  const native = findPostgres();
  if (native === undefined) throw new Error("needs PostgreSQL");
  const server = await startPostgres(native);
  closing.push(() => server.end());
  const [urlFile, settings, user] = ["url", "kafka.yaml", "kafka-user"].map((name) => join(folder, name));
  writeFileSync(urlFile ?? "", await server.createDatabase("store"));
  writeFileSync(user ?? "", `${USER}:${PASSWORD}`);
  const sasl = "{ mechanism: scram-sha-512, basicFile: kafka-user }";
  const lines = [
    `brokers: ["${kafka.saslBroker}"]`,
    "topic: to-store",
    `tls: { rootCert: ${kafka.rootCert} }`,
    `sasl: ${sasl}`,
  ];
  writeFileSync(settings ?? "", lines.join("\n"));
  const start = () =>
    Bun.spawn([...STC, "audit", "import", "--to-store", urlFile ?? "", "--from-kafka", settings ?? ""], {
      ...{ env: environmentOf({}), stdin: "ignore", stdout: "pipe", stderr: "pipe" },
    });
  const stored = async (): Promise<number> => {
    const [row] = await server.send("SELECT count(*)::int AS lines FROM audit_lines", "store").catch(() => []);
    return Number(row?.["lines"] ?? 0);
  };
  const first = start();
  await until("the first lines", async () => ((await stored()) > 0 ? true : undefined));
  first.kill("SIGKILL");
  await first.exited;
  const second = start();
  const count = 4_000 + 667 + 1_000 + 167;
  await until("all lines", async () => ((await stored()) === count ? true : undefined));
  second.kill("SIGTERM");
  expect(await new Response(second.stderr).text()).toBe("");
  expect(await second.exited).toBe(0);
  const store = await openAuditStore(readFileSync(urlFile ?? "", "utf8"), {
    statementMs: 20_000,
    scope: "all",
  });
  const reports = await Array.fromAsync(store.verify({ keys: [], expected: [], pause: async () => {} }));
  await store.close();
  expect(reports.map(({ lines: each }) => each).sort((a, b) => a - b)).toEqual([167, 667, 1_000, 4_000]);
  expect(reports.flatMap(({ problems }) => problems)).toEqual([]);
}, 300_000);
