import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Exporter } from "../../src/audit/export/exporter.ts";
import { readExportPosition } from "../../src/audit/export/positions.ts";
import { entryLine, writeDays } from "../support/audit-lines.ts";
import { openReceiver } from "../support/receivers.ts";
import { until } from "../support/until.ts";

const DAY = "2026-02-16";
const CREDENTIAL = "Bearer only-for-the-far-side";

let dir: string;
let far: Bun.Server<undefined> | undefined;
let exporter: Exporter | undefined;
let reports: string[];
beforeEach(() => {
  reports = [];
  dir = mkdtempSync(join(tmpdir(), "stc-export-attack-"));
  const stamps = Array.from({ length: 5 }, (_, second) => `${DAY}T10:00:0${second}.000Z`);
  writeDays(dir, { [DAY]: stamps.map((stamp, index) => entryLine(stamp, { traceId: `t-${index}` })) });
});
afterEach(async () => {
  await exporter?.stop();
  await far?.stop(true);
  rmSync(dir, { recursive: true, force: true });
});

type Answer = (request: Request, count: number) => Response | Promise<Response>;

/** A far side of this behaviour, and an exporter that sends there. */
function send(answer: Answer, type: "otlp" | "loki" = "loki"): void {
  let count = 0;
  far = Bun.serve({ hostname: "127.0.0.1", port: 0, idleTimeout: 0, fetch: (request) => answer(request, ++count) });
  const url = `http://127.0.0.1:${far.port}`;
  exporter = new Exporter({
    ...{ dir, stream: "calls", clock: () => Date.parse(`${DAY}T11:00:00.000Z`), random: () => 0 },
    target: { name: "far", receiver: openReceiver({ type, url, dir, headers: `authorization: ${CREDENTIAL}` }) },
    report: (message) => reports.push(message),
    ...{ pollMs: 1, backoffMs: 1 },
  });
}

const sent = (): number => exporter?.state().sentLines ?? 0;
const position = (): unknown => readExportPosition(dir, "far", "calls").position;
const OK = (): Response => new Response(null, { status: 204 });

test("a redirect is not followed: neither lines nor credentials go elsewhere", async () => {
  const elsewhere: string[] = [];
  const other = Bun.serve({
    ...{ hostname: "127.0.0.1", port: 0 },
    fetch: (request) => {
      elsewhere.push(request.url);
      return OK();
    },
  });
  for (const status of [301, 302, 307, 308]) {
    send(() => new Response(null, { status, headers: { location: `http://127.0.0.1:${other.port}/` } }));
    await until("some tries", () => ((exporter?.state().failures ?? 0) > 2 ? true : undefined));
    await exporter?.stop();
    await far?.stop(true);
  }
  expect([elsewhere, position()]).toEqual([[], undefined]);
  expect(reports.join()).not.toContain(CREDENTIAL);
  await other.stop(true);
});

test("a receiver that drops connections gets every line in the end, in order", async () => {
  const bodies: string[] = [];
  send(async (request, count) => {
    const body = await request.text();
    if (count <= 3) {
      far?.stop(true);
      far = undefined;
    }
    bodies.push(body);
    return count % 2 === 0 ? OK() : new Response(null, { status: 500 });
  });
  await until("a failure", () => ((exporter?.state().failures ?? 0) > 0 ? true : undefined));
  expect([sent(), position()]).toEqual([0, undefined]);
  await exporter?.stop();
  send(async (request) => {
    bodies.push(await request.text());
    return OK();
  });
  await until("all lines", () => (sent() === 5 ? true : undefined));
  const ids = [...(bodies.at(-1) ?? "").matchAll(/traceId\\":\\"(t-\d)/g)].map(([, id]) => id);
  expect(ids).toEqual(["t-0", "t-1", "t-2", "t-3", "t-4"]);
});

test("an endless answer is not read to its end", async () => {
  const endless = (): Response =>
    new Response(
      new ReadableStream({
        async pull(controller) {
          controller.enqueue(new Uint8Array(16_384));
          await Bun.sleep(0);
        },
      }),
    );
  send(endless);
  await until("all lines", () => (sent() === 5 ? true : undefined));
});

test("a receiver that never answers does not delay the service's end", async () => {
  const asked = Promise.withResolvers<void>();
  send(() => {
    asked.resolve();
    return new Promise<never>(() => {});
  });
  await asked.promise;
  await exporter?.stop();
  expect(position()).toBeUndefined();
});

test.each(["{", "null", "[]", '{"partialSuccess":7}', '{"partialSuccess":{"rejectedLogRecords":"many"}}'])(
  "an answer that is not OTLP counts as an answer: %s",
  async (body) => {
    send(() => new Response(body), "otlp");
    await until("all lines", () => (sent() === 5 ? true : undefined));
    expect(existsSync(join(dir, "export/far.dead.jsonl"))).toBe(false);
  },
);

test.each(["1", "1e308", '"5"'])(
  "a receiver that rejects %s gets nothing twice, and nothing is lost",
  async (count) => {
    let requests = 0;
    send(() => {
      requests += 1;
      return new Response(`{"partialSuccess":{"rejectedLogRecords":${count}}}`);
    }, "otlp");
    await until("dead letters", () => (exporter?.state().deadLines === 5 ? true : undefined));
    await exporter?.stop();
    expect([requests, sent(), existsSync(join(dir, "export/far.dead.jsonl"))]).toEqual([1, 0, true]);
  },
);

test("an impossible Retry-After is ignored", async () => {
  let tries = 0;
  send(() => {
    tries += 1;
    return new Response(null, { status: 429, headers: { "retry-after": tries < 3 ? "-1" : "99999999999" } });
  });
  await until("some tries", () => (tries >= 6 ? true : undefined));
  expect(reports).toHaveLength(1);
});
