import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { checkProof, type Proof, readProof } from "../../src/audit/chain/proof.ts";
import { agedFiles, pruneFiles } from "../../src/audit/export/prune.ts";
import type { JournalLine } from "../../src/audit/journal/journal.ts";
import { createServer } from "../../src/http/server.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { keys, writeLog } from "../audit/support/chained-log.ts";
import { entryLine, writeDays } from "../support/audit-lines.ts";
import { OPERATORS_AUDIENCE, OPERATORS_ISSUER } from "../support/live-tokens.ts";
import { agentsProfile, type Claims, goodClaims, issueToken, makeSigningKey, NOW_SECONDS } from "../support/tokens.ts";
import { until } from "../support/until.ts";
import { endpointsWith, serverParts } from "./server-parts.ts";

const operators = makeSigningKey("ES256", "operators-1");
const TODAY = new Date(NOW_SECONDS * 1000).toISOString().slice(0, 10);
const at = (seconds: number): string => new Date((NOW_SECONDS + seconds) * 1000).toISOString();

let nowMs = NOW_SECONDS * 1000;
/** Added to the time whenever it is read. */
let stepMs = 0;
const journal: JournalLine[] = [];
const opened: (() => Promise<void>)[] = [];
afterEach(() => {
  nowMs = NOW_SECONDS * 1000;
  stepMs = 0;
  journal.length = 0;
});
afterAll(async () => {
  for (const close of opened) await close();
});

interface Stand {
  readonly dir: string;
  readonly url: string;
  readonly app: FastifyInstance;
}

/** A listener over an audit directory of its own. */
async function open(): Promise<Stand> {
  const dir = mkdtempSync(join(tmpdir(), "stc-audit-download-"));
  const profile = { issuer: OPERATORS_ISSUER, audience: OPERATORS_AUDIENCE, operators: true };
  const clock = (): number => {
    nowMs += stepMs;
    return nowMs;
  };
  const parts = serverParts({
    ...{ auditDir: dir, clock },
    callers: createCallerVerifier({ issuers: [agentsProfile([operators], profile)], clock }),
    journal: async (line) => void journal.push(line),
  });
  const app = createServer(parts, await endpointsWith(parts));
  opened.push(async () => {
    await app.close();
    rmSync(dir, { recursive: true, force: true });
  });
  return { dir, app, url: await app.listen({ host: "127.0.0.1", port: 0 }) };
}

async function tokenOf(changes: Claims = {}): Promise<string> {
  const by = { iss: OPERATORS_ISSUER, aud: OPERATORS_AUDIENCE, sub: "auditor", permissions: ["audit:read"] };
  return issueToken(operators, goodClaims({ ...by, ...changes }));
}

async function get({ url }: Pick<Stand, "url">, path: string, claims: Claims = {}): Promise<Response> {
  return fetch(url + path, { headers: { authorization: `Bearer ${await tokenOf(claims)}` } });
}

async function codeOf(response: Response): Promise<readonly unknown[]> {
  const { error } = (await response.json()) as { error: { code: string } };
  return [response.status, error.code];
}

describe("a proof", () => {
  let stand: Stand;
  beforeAll(async () => {
    stand = await open();
    await writeLog(stand.dir);
  });

  test("of every call can be checked with the public key alone", async () => {
    for (const id of ["t-0-0", "t-1-3", "t-2-4"]) {
      const answer = await get(stand, `/audit/${id}/proof`);
      const proof = readProof(await answer.text());
      expect([answer.status, checkProof(proof, [keys.publicKey]).ok, proof.line.includes(`"${id}"`)]).toEqual([
        200,
        true,
        true,
      ]);
    }
    expect(journal.map(({ type, route, filters }) => ({ type, route, filters }))[1]).toEqual({
      ...{ type: "audit.queried", route: "proof" },
      filters: { traceId: "t-1-3" },
    });
  });

  test("needs audit:read, and a valid id", async () => {
    expect(await codeOf(await get(stand, "/audit/t-0-0/proof", { permissions: ["tools:read"] }))).toEqual([
      403,
      "PERMISSION_DENIED",
    ]);
    expect(await codeOf(await get(stand, "/audit/a%20b/proof"))).toEqual([400, "MALFORMED_REQUEST"]);
    expect(await codeOf(await get(stand, "/audit/t-0-0/proof?key=x"))).toEqual([400, "MALFORMED_REQUEST"]);
    for (const id of ["t-9-9", "..%2F..%2Fetc%2Fpasswd", "%22%7D"]) {
      expect(await codeOf(await get(stand, `/audit/${id}/proof`))).toEqual([404, "ENTRY_NOT_FOUND"]);
    }
  });

  test("of a call is found however long the search takes", async () => {
    stepMs = 2_000;
    expect((await get(stand, "/audit/t-2-4/proof")).status).toBe(200);
  });

  test("of a call that no checkpoint covers does not exist, and the reason names no path", async () => {
    const plain = await open();
    writeDays(plain.dir, { [TODAY]: [entryLine(at(-10), { traceId: "t-1" })] });
    const answer = await get(plain, "/audit/t-1/proof");
    const text = await answer.text();
    expect([answer.status, text.includes("PROOF_NOT_AVAILABLE"), text.includes(plain.dir)]).toEqual([409, true, false]);
    expect(text).toContain("holds no checkpoint");
  });

  test("of a call after days that retention deleted can be checked as well", async () => {
    const pruned = await open();
    await writeLog(pruned.dir);
    const now = Date.parse("2026-02-19T13:00:00.000Z");
    const days = { dir: pruned.dir, nowMs: now, keepMs: 2 * 86_400_000 };
    expect((await pruneFiles(agedFiles(days), days)).length).toBeGreaterThan(0);
    expect(await codeOf(await get(pruned, "/audit/t-0-0/proof"))).toEqual([404, "ENTRY_NOT_FOUND"]);
    const proofs: Proof[] = [];
    for (const id of ["t-2-0", "t-2-2", "t-2-4"]) {
      proofs.push(readProof(await (await get(pruned, `/audit/${id}/proof`)).text()));
    }
    expect(proofs.map((proof) => checkProof(proof, [keys.publicKey]).ok)).toEqual([true, true, true]);
  });
});

describe("an export", () => {
  let stand: Stand;
  const hostile = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '"quoted", with commas', "<b>bold</b>\u202e"];
  beforeAll(async () => {
    stand = await open();
    const entries = hostile.map((text, index) => {
      const caller = { sub: text, iss: "https://idp.test", permissions: [] };
      return entryLine(at(index - 100), { traceId: `t-${index}`, caller });
    });
    writeDays(stand.dir, { [TODAY]: entries });
  });

  test("as JSONL has the lines of the log, oldest first", async () => {
    const answer = await get(stand, "/audit/export?format=jsonl");
    expect([answer.status, answer.headers.get("content-type"), answer.headers.get("content-disposition")]).toEqual([
      200,
      "application/x-ndjson; charset=utf-8",
      'attachment; filename="audit.jsonl"',
    ]);
    const lines = (await answer.text()).trimEnd().split("\n");
    expect(lines.map((line) => (JSON.parse(line) as { traceId: string }).traceId)).toEqual(
      hostile.map((_text, index) => `t-${index}`),
    );
  });

  test("as CSV has no cell that a spreadsheet takes for a formula", async () => {
    const answer = await get(stand, "/audit/export?format=csv");
    expect(answer.headers.get("content-type")).toBe("text/csv; charset=utf-8");
    const [header, ...rows] = (await answer.text()).trimEnd().split("\n");
    expect(header).toStartWith("timestamp,traceId,sub,iss,tool");
    const subjects = rows.map((row) => row.split(",")[2]);
    expect(subjects.slice(0, 4)).toEqual([`"'=1+1"`, `"'+1"`, `"'-1"`, `"'@SUM(A1)"`]);
    expect(rows).toHaveLength(hostile.length);
    expect(rows.filter((row) => /(?:^|,)"?[=+\-@\t\r]/.test(row))).toEqual([]);
    expect(rows[6]).toContain('"""quoted"", with commas"');
  });

  test("holds what the filters match, and is recorded before the first byte", async () => {
    const answer = await get(stand, "/audit/export?format=jsonl&traceId=t-3&from=1h");
    expect(journal).toEqual([
      {
        ...{ type: "audit.queried", sub: "auditor", iss: OPERATORS_ISSUER, route: "export" },
        filters: { traceId: "t-3", from: "1h", format: "jsonl" },
      },
    ]);
    expect((await answer.text()).trimEnd().split("\n")).toHaveLength(1);
    expect(await (await get(stand, "/audit/export?format=jsonl&traceId=t-99")).text()).toBe("");
  });

  test.each([
    ...["", "?format=xml", "?format=jsonl&limit=3", "?format=jsonl&order=oldest", "?format=csv&format=jsonl"],
    ...["?format=csv&sub=", "?format=csv&from=2026-02-30", "?format=csv&output=/etc/passwd", "?format=__proto__"],
    `?format=csv&text=${"a".repeat(513)}`,
  ])("%s is not valid and is not recorded", async (query) => {
    expect(await codeOf(await get(stand, `/audit/export${query}`))).toEqual([400, "MALFORMED_REQUEST"]);
    expect(journal).toEqual([]);
  });
});

describe("an export of a large log", () => {
  const LINES = 40_000;
  let stand: Stand;
  beforeAll(async () => {
    stand = await open();
    const file = join(stand.dir, `${TODAY}.jsonl`);
    writeFileSync(file, "");
    const line = (index: number): string => `${entryLine(at(-1), { traceId: `t-${index}` })}\n`;
    for (let from = 0; from < LINES; from += 10_000) {
      appendFileSync(file, Array.from({ length: 10_000 }, (_, index) => line(from + index)).join(""));
    }
  });

  /** Requests an export, and reads nothing until the test starts it. */
  async function stalled(path: string) {
    const socket = connect(Number(new URL(stand.url).port), "127.0.0.1");
    const token = await tokenOf();
    socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\n\r\n`);
    socket.pause();
    let bytes = 0;
    let tail = "";
    let isOver = false;
    socket.on("data", (chunk) => {
      bytes += chunk.length;
      tail = (tail + chunk.toString("latin1")).slice(-16);
    });
    socket.on("close", () => {
      isOver = true;
    });
    socket.on("error", () => {});
    return { socket, bytes: () => bytes, isOver: () => isOver, isWhole: () => tail.endsWith("0\r\n\r\n") };
  }

  test("arrives whole, with every line once, while others are answered", async () => {
    const answer = await get(stand, "/audit/export?format=jsonl");
    const [text, other] = await Promise.all([answer.text(), get(stand, "/audit?limit=1")]);
    expect(other.status).toBe(200);
    const ids = [...text.matchAll(/"traceId":"t-(\d+)"/g)].map(([, number]) => Number(number));
    expect([ids.length, new Set(ids).size, ids.at(-1)]).toEqual([LINES, LINES, LINES - 1]);
  });

  test("waits for a client that does not read, and one operator has one export", async () => {
    const client = await stalled("/audit/export?format=jsonl");
    await until("the recorded export", () => (journal.length > 0 ? true : undefined));
    expect(await codeOf(await get(stand, "/audit/export?format=csv"))).toEqual([429, "RATE_LIMITED"]);
    client.socket.resume();
    await until("the end", () => (client.isOver() ? true : undefined));
    expect(client.isWhole()).toBe(true);
  });

  test.each(["its token ends", "the listener closes"])(
    "is cut off when %s, and does not pass for whole",
    async (why) => {
      const client = await stalled("/audit/export?format=jsonl");
      await until("the recorded export", () => (journal.length > 0 ? true : undefined));
      if (why === "its token ends") nowMs += 700_000;
      else void stand.app.close();
      client.socket.resume();
      await until("the end", () => (client.isOver() ? true : undefined));
      expect(client.isWhole()).toBe(false);
    },
  );
});
