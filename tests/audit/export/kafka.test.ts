import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { kafkaExporter } from "../../../src/audit/export/kafka.ts";
import type { Receiver } from "../../../src/audit/export/receiver.ts";
import { openKafka, type WrittenKafka } from "../../support/kafka-receiver.ts";

const folders: string[] = [];
const receivers: Receiver[] = [];
afterEach(async () => {
  for (const receiver of receivers.splice(0)) await receiver.close?.();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function fileOf(content: string): string {
  const folder = mkdtempSync(join(tmpdir(), "stc-kafka-"));
  folders.push(folder);
  const path = join(folder, "file");
  writeFileSync(path, content);
  return path;
}

function opened(settings: WrittenKafka): Receiver {
  const receiver = openKafka(settings);
  receivers.push(receiver);
  return receiver;
}

const never = new AbortController().signal;
const LOCAL = { brokers: ["127.0.0.1:9092"], topic: "audit" };
const SASL = { mechanism: "scram-sha-512", basicFile: "/etc/kafka-user" } as const;

describe("settings", () => {
  const problems = (written: object): readonly string[] =>
    kafkaExporter.settings.safeParse({ ...LOCAL, ...written }).error?.issues.map(({ path }) => path.join(".")) ?? [];

  test.each([
    [{}],
    [{ brokers: ["kafka-0.kafka.svc.cluster.local:9093", "10.1.2.3:9092", "[::1]:9092", "[fe80::1]:65535"] }],
    [{ topic: "audit.calls-EU_1" }],
    [{ topic: "..." }],
    [{ compression: "zstd", clientId: "gate-1" }],
    [{ tls: {} }],
    [{ tls: { rootCert: "a", clientCert: "b", clientKey: "c" } }],
    [{ sasl: SASL, brokers: ["kafka.example:9093"] }],
    [{ plaintext: true, brokers: ["kafka.example:9092"] }],
    [{ plaintext: true, sasl: SASL, brokers: ["localhost:9092", "127.0.0.1:9093", "[::1]:9094"] }],
  ])("%j is accepted", (written) => expect(problems(written)).toEqual([]));

  test.each([
    [{ brokers: [] }, "brokers"],
    [{ brokers: ["kafka.example"] }, "brokers.0"],
    [{ brokers: ["kafka.example:0"] }, "brokers.0"],
    [{ brokers: ["kafka.example:70000"] }, "brokers.0"],
    [{ brokers: ["kafka://kafka.example:9092"] }, "brokers.0"],
    [{ brokers: ["user:pw@kafka.example:9092"] }, "brokers.0"],
    [{ brokers: ["::1:9092"] }, "brokers.0"],
    [{ topic: "" }, "topic"],
    [{ topic: ".." }, "topic"],
    [{ topic: "audit calls" }, "topic"],
    [{ topic: "a".repeat(250) }, "topic"],
    [{ clientId: "a b" }, "clientId"],
    [{ compression: "snappy" }, "compression"],
    [{ plaintext: false }, "plaintext"],
    [{ plaintext: true, tls: {} }, "plaintext"],
    [{ plaintext: true, sasl: SASL, brokers: ["127.0.0.1:9092", "kafka.example:9092"] }, "plaintext"],
    [{ tls: { clientCert: "a" } }, "tls"],
    [{ tls: { clientKey: "a" } }, "tls"],
    [{ sasl: { ...SASL, mechanism: "gssapi" } }, "sasl.mechanism"],
  ])("%j is refused", (written, setting) => expect(problems(written)).toEqual([setting]));
});

describe("files", () => {
  test("each that cannot be used is named, and none is quoted", () => {
    const basicFile = fileOf("no-colon-but-secret\n");
    const tls = { rootCert: "/nowhere/ca.pem", clientCert: "/nowhere/cert.pem", clientKey: "/nowhere/key.pem" };
    const open = () => openKafka({ ...LOCAL, tls, sasl: { mechanism: "plain", basicFile } });
    expect(open).toThrow(
      [
        "tls.rootCert: /nowhere/ca.pem: cannot be read",
        "tls.clientCert: /nowhere/cert.pem: cannot be read",
        "tls.clientKey: /nowhere/key.pem: cannot be read",
        `sasl.basicFile: ${basicFile}: must hold one line, user:password`,
      ].join("\n"),
    );
  });

  test("one that vanishes later makes the lines wait", async () => {
    const basicFile = fileOf("audit:secret:with:colons\n");
    const receiver = opened({ ...LOCAL, sasl: { mechanism: "plain", basicFile } });
    rmSync(basicFile);
    const reason = "a file with certificates or credentials cannot be read";
    expect(await receiver.deliver([], never)).toEqual({ kind: "later", reason, retryAfterMs: undefined });
  });
});

describe("a broker", () => {
  test("that is not there makes the lines wait, and the reason names no credentials", async () => {
    const basicFile = fileOf("audit:secret");
    const free = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
    const brokers = [`127.0.0.1:${free.port}`];
    free.stop(true);
    const receiver = opened({ brokers, topic: "audit", plaintext: true, sasl: { mechanism: "plain", basicFile } });
    for (let attempt = 0; attempt < 2; attempt += 1) {
      expect(await receiver.deliver([], never)).toEqual({
        kind: "later",
        reason: "ECONNREFUSED",
        retryAfterMs: undefined,
      });
    }
  });

  test("that never answers holds neither a stop nor the end of the process", async () => {
    const asked = Promise.withResolvers<void>();
    const silent = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => asked.resolve() } });
    const receiver = opened({ brokers: [`127.0.0.1:${silent.port}`], topic: "audit", plaintext: true });
    const stop = new AbortController();
    const delivery = receiver.deliver([], stop.signal);
    await asked.promise;
    stop.abort();
    expect(await delivery).toEqual({ kind: "later", reason: "aborted", retryAfterMs: undefined });
    await receiver.close?.();
    silent.stop(true);
  });

  test("that speaks another protocol makes the lines wait", async () => {
    const web = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response("hello") });
    const receiver = opened({ brokers: [`127.0.0.1:${web.port}`], topic: "audit" });
    expect(await receiver.deliver([], never)).toMatchObject({ kind: "later" });
    await web.stop(true);
  });
});
