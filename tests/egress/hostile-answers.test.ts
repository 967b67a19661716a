import { afterAll, beforeAll, expect, test } from "bun:test";
import fc from "fast-check";
import { EgressAnswerReader, InterimAnswers, MalformedAnswer } from "../../src/egress/answer-reader.ts";
import { EgressClient } from "../../src/egress/client.ts";
import { parserFactory } from "../../src/http1/parser.ts";
import { RawServer } from "../support/raw-server.ts";
import verdicts from "./hostile-answers.json" with { type: "json" };
import { KINDS, type Kind, MUTATIONS, mutated, verdictOf } from "./hostile-answers.ts";

/**
 * `hostile-answers.json` holds what the client on `node:http` made of each answer, before the client on sockets replaced it: for
 * each kind its verdict, and those of its mutations. Whatever was refused must stay refused, and whatever was read must be read
 * alike.
 */
const RECORDED: Readonly<Record<string, string>> = verdicts;

/** Verdicts that differ, by kind and mutation. */
const CHANGED: ReadonlyMap<string, string> = new Map([
  // `content-length: 1` with a tab after it: this version of the parser allows only spaces.
  ["a length and chunks 19", "malformed"],
  // The connection ends after `OK\r\rc`: the parser waits for the end of the line.
  ["a space before a colon 23", "lost"],
]);

/** What an answer is now refused for, by kind: its status, its reason, or the number of its headers says enough. */
const MORE_EXACT: Readonly<Record<string, string>> = {
  "a switch to no protocol": "upgrade",
  "a switch of protocols": "upgrade",
  "too many headers": "malformed",
  "a reason that is too large": "malformed",
};

let server: RawServer;
beforeAll(async () => {
  server = await RawServer.start();
});
afterAll(() => server.close());

async function verdict(kind: Kind, parts: readonly string[]): Promise<string> {
  const client = new EgressClient({ addresses: { classes: ["loopback"] } });
  try {
    return await verdictOf({ client, server }, kind, parts);
  } finally {
    client.close();
  }
}

const isRead = (text: string): boolean => text.includes(":");

test.each(KINDS.map((kind, index) => [kind.title, kind, index] as const))(
  "%s: refused as before, or read as before",
  async (title, kind, index) => {
    const before = (RECORDED[title] ?? "").split(" ");
    expect(before).toHaveLength(MUTATIONS);
    for (const [mutation, recorded] of before.entries()) {
      const now = await verdict(kind, [mutated(kind, index, mutation)]);
      const expected = CHANGED.get(`${title} ${mutation}`) ?? recorded;
      const isMoreExact = !isRead(recorded) && MORE_EXACT[title] === now;
      expect([mutation, isMoreExact ? expected : now]).toEqual([mutation, expected]);
    }
  },
);

const parsers = await parserFactory();

interface Reading {
  readonly status: number | undefined;
  readonly headers: object | undefined;
  readonly body: string;
  readonly end: string;
}

/** Reads an answer that arrives in these parts, after which the connection ends. */
function readIn(method: string, parts: readonly Buffer[]): Reading {
  const seen: { status?: number; headers?: object } = {};
  let body = "";
  let isSwitched = false;
  const reader = new EgressAnswerReader(parsers);
  reader.begin({
    request: { method },
    answered: (status, headers) => Object.assign(seen, { status, headers }),
    switchedProtocol: () => {
      isSwitched = true;
    },
    received: (chunk) => {
      body += chunk.toString("latin1");
    },
  });
  let end = "cut off";
  try {
    for (const part of parts) {
      reader.read(part);
      if (reader.isComplete || isSwitched) break;
    }
    if (reader.isComplete || reader.endsWithConnection()) end = "complete";
  } catch (error) {
    if (!(error instanceof MalformedAnswer || error instanceof InterimAnswers)) throw error;
    end = error.constructor.name;
  }
  reader.close();
  return { status: seen.status, headers: seen.headers, body, end: isSwitched ? "switched" : end };
}

/** Returns the text in parts that begin at these positions. */
function split(text: string, positions: readonly number[]): readonly Buffer[] {
  const sorted = [...new Set(positions.map((at) => at % (text.length + 1)))].sort((a, b) => a - b);
  return [0, ...sorted].map((from, index) => Buffer.from(text.slice(from, sorted[index] ?? text.length), "latin1"));
}

test("an answer is read alike however the network divides it", () => {
  const positions = fc.array(fc.nat(), { maxLength: 6 });
  fc.assert(
    fc.property(fc.nat(KINDS.length - 1), fc.nat(MUTATIONS - 1), positions, (index, mutation, positions) => {
      const kind = KINDS[index] as Kind;
      const text = mutated(kind, index, mutation);
      const whole = readIn(kind.method, [Buffer.from(text, "latin1")]);
      const divided = readIn(kind.method, split(text, positions));
      // Bytes after an answer that arrive later meet a connection that expects none.
      if (divided.end === "complete" && whole.end !== "complete") return;
      expect(divided).toEqual(whole);
    }),
    { numRuns: 3_000 },
  );
});

test("every single division of each small answer", () => {
  for (const { title, text, method } of KINDS.filter((kind) => kind.text.length < 200)) {
    const whole = readIn(method, [Buffer.from(text, "latin1")]);
    for (let at = 1; at < text.length; at += 1) {
      const divided = readIn(method, split(text, [at]));
      if (divided.end === "complete" && whole.end !== "complete") continue;
      expect([title, at, divided]).toEqual([title, at, whole]);
    }
  }
});

test("division between segments of a connection", async () => {
  for (const [index, kind] of KINDS.entries()) {
    const recorded = (RECORDED[kind.title] ?? "").split(" ")[0] ?? "";
    const text = mutated(kind, index, 0);
    const divided = await verdict(kind, [text.slice(0, text.length / 3), text.slice(text.length / 3)]);
    if (MORE_EXACT[kind.title] === divided || (isRead(divided) && AFTER_ANSWERS.test(kind.title))) continue;
    expect([kind.title, divided]).toEqual([kind.title, recorded]);
  }
});

/** Kinds that are refused for what follows a complete answer, while it is not divided from it. */
const AFTER_ANSWERS = /after|^no content, with|^HEAD: a body/;
