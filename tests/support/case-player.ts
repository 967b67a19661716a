import { expect } from "bun:test";
import { join } from "node:path";
import type { AuditEntry } from "../../src/audit/entry.ts";
import { REFUSALS } from "../../src/core/refusals.ts";
import { SafeToolCall } from "../../src/index.ts";
import { auditEntries, dayFilesText, journalEntries } from "./audit-files.ts";
import { playEarlier } from "./case-questions.ts";
import { isRefusal, type Row, type Want, type WantedRefusal } from "./case-row.ts";
import { type Place, type Stage, setStage } from "./case-situations.ts";
import { type RawAnswer, sendRaw } from "./raw-http.ts";
import { until } from "./until.ts";
import { PROJECT } from "./world.ts";

/** Personal data of the customer whom most rows ask for, and what the test manifests plant. */
const PERSONAL = [
  ...["John Smith", "john.smith@example.com", "+447700900001", "QQ000001C", "GB-000001-7", "Station Road"],
  ...["Northern Rail Works", "Kin of", "planted-in-answer", "Jane Roe", "jane.roe@", "4111111111111111", "078-05-1120"],
];

/** What test manifests throw: for the operators' log alone. */
const FOR_OPERATORS = ["planted-in-error"];

type Reply = Record<string, unknown> & { readonly error?: Record<string, unknown>; readonly traceId?: string };

/** Plays rows and holds each against what it wants. */
export class CasePlayer {
  readonly #stage: Stage;
  readonly #library: SafeToolCall;
  readonly #libraryAudit: string;

  private constructor(stage: Stage) {
    const { folder, issuers, targets } = stage.world;
    this.#stage = stage;
    this.#libraryAudit = join(folder, "audit/library");
    this.#library = SafeToolCall.create({
      ...targets,
      tools: [join(PROJECT, "tests/cases/tools"), join(PROJECT, "tools")],
      audit: { dir: this.#libraryAudit },
      jwt: { issuers: issuers.profiles() as never },
    });
  }

  static async open(): Promise<CasePlayer> {
    const player = new CasePlayer(await setStage());
    await Promise.all([player.#library.ready(), ...Object.values(player.#stage.places).map((place) => place.ready())]);
    return player;
  }

  async close(): Promise<void> {
    await this.#library.close();
    await this.#stage.close();
  }

  async play(played: Row): Promise<void> {
    const { given } = played;
    const isHttp = given.through === "http";
    const place = this.#stage.places[given.situation];
    const auditDir = isHttp ? place.auditDir : this.#libraryAudit;
    const approvalId = isHttp ? await playEarlier(given, place, this.#stage.world.issuers) : undefined;
    const row = JSON.parse(JSON.stringify(played).replaceAll("$APPROVAL", approvalId ?? "")) as Row;
    const { want } = row;
    const before = { lines: auditEntries(auditDir).length, log: this.#stage.log().length };
    const authorization = await this.#stage.world.issuers.authorization(given.token);
    let sent = 0;
    let heard: Heard;
    do {
      sent += 1;
      heard = isHttp ? await this.#overHttp(row, place, authorization) : await this.#inProcess(row, authorization);
    } while (sent < given.times || (given.until !== undefined && heard.reply.error?.["code"] !== given.until));
    if (want === "no answer") await until("the line", () => auditEntries(auditDir)[before.lines]);

    assertAnswer(want, heard, isHttp);
    const added = auditEntries(auditDir).slice(before.lines);
    assertLines(row, added, { heard, sent });
    assertIntent(row, added.at(-1), auditDir);
    const written = dayFilesText(auditDir) + dayFilesText(join(auditDir, "journal"));
    const told = heard.text + written;
    const secrets = [...PERSONAL, ...row.secrets, ...signatureOf(authorization)];
    const logged = this.#stage.log().slice(before.log);
    expect(found(secrets, told + logged)).toEqual([]);
    // What a caller brings about is not an operator's error.
    const aboutCalls = logged.split("\n").filter((line) => line.includes('"msg":"call refused"'));
    if (heard.reply.error?.["code"] === "TARGET_REFUSED") {
      expect(aboutCalls.filter((line) => line.includes('"severity":"ERROR"'))).toEqual([]);
    }
    expect(found(FOR_OPERATORS, told)).toEqual([]);
    expect(found([this.#stage.world.folder, PROJECT], heard.text)).toEqual([]);
  }

  async #overHttp({ given }: Row, place: Place, authorization: string | undefined): Promise<Heard> {
    const answer = await sendRaw({
      url: place.url,
      method: given.method,
      path: given.path,
      headers: headerLines(given, new URL(place.url).host, authorization),
      body: bodyOf(given, place.auditDir),
      send: given.send,
      between: () => place.between(),
    });
    const text = answer?.body ?? "";
    return { answer, text, reply: text.startsWith("{") ? JSON.parse(text) : {} };
  }

  async #inProcess({ given }: Row, authorization: string | undefined): Promise<Heard> {
    const token = authorization?.replace("Bearer ", "") ?? "";
    const args = JSON.parse(bodyOf(given, this.#libraryAudit).toString()).args;
    const reply = (await this.#library.call(given.tool ?? "", args, token)) as unknown as Reply;
    return { answer: undefined, text: JSON.stringify(reply), reply };
  }
}

interface Heard {
  readonly answer: RawAnswer | undefined;
  readonly text: string;
  readonly reply: Reply;
}

function headerLines(given: Row["given"], host: string, authorization: string | undefined): readonly string[] {
  const usual = [`Host: ${host}`, "Content-Type: application/json"];
  if (authorization !== undefined) usual.push(`Authorization: ${authorization}`);
  const nameOf = (line: string): string => line.slice(0, line.indexOf(":")).toLowerCase();
  const replaced = new Set([...given.headers.map(nameOf), ...given.without.map((name) => name.toLowerCase())]);
  const second = given.headers.map((line) => line.replace("$AUTHORIZATION", authorization ?? ""));
  return [...usual.filter((line) => !replaced.has(nameOf(line))), ...second];
}

function bodyOf({ method, tool, args, body, approval: id }: Row["given"], auditDir: string): Buffer {
  if (body === undefined) {
    if (method === "GET") return Buffer.alloc(0);
    const envelope = JSON.stringify({ tool, args, ...(id !== undefined && { approval: { id } }) });
    return Buffer.from(envelope.replace("$JOURNAL", join(auditDir, "journal")));
  }
  const parts = Array.isArray(body) ? body : [body];
  return Buffer.concat(
    parts.map((part) => {
      if (typeof part === "string") return Buffer.from(part);
      return "hex" in part ? Buffer.from(part.hex, "hex") : Buffer.from(part.text.repeat(part.times));
    }),
  );
}

function assertAnswer(want: Want, { answer, reply, text }: Heard, isHttp: boolean): void {
  if (want === "no answer") {
    expect(answer).toBeUndefined();
    return;
  }
  if (isHttp) expect({ http: answer?.status, text }).toEqual({ http: want.http, text });
  if (isRefusal(want)) {
    assertRefusal(want, reply, answer);
    return;
  }
  if (!("status" in want)) {
    if (want.body !== undefined) expect(reply).toMatchObject(want.body);
    if (want.text !== undefined) expect(text).toContain(want.text);
    return;
  }
  const { status, untrusted, result, filteredFields } = reply;
  expect({ status, untrusted, result, filteredFields }).toEqual({
    status: want.status,
    untrusted: true,
    result: want.result,
    filteredFields: want.filteredFields,
  });
}

const ISO_TIME = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g;

/** Replaces times by `$TIME`, where a case says that there are some. */
function withoutTimes(seen: unknown, want: string): unknown {
  return want.includes("$TIME") ? JSON.parse(JSON.stringify(seen).replace(ISO_TIME, "$$TIME")) : seen;
}

function assertRefusal(want: WantedRefusal, reply: Reply, answer: RawAnswer | undefined): void {
  const { code, stage, message, details, retryable, retryAfterMs } = want;
  if (want.status === "pending") {
    expect(reply).toMatchObject({ status: "pending", approval: { message, ...(details?.["approval"] as object) } });
    return;
  }
  const { retryAfterMs: waits, ...error } = reply.error ?? {};
  const seen: Loose = { status: reply["status"], ...error };
  expect(withoutTimes(seen, JSON.stringify(want))).toEqual({
    status: want.status,
    code,
    stage,
    message,
    ...(details !== undefined && { details }),
    retryable,
  });
  if (retryAfterMs === "some") expect(waits).toBeGreaterThan(0);
  else expect(waits).toBe(retryAfterMs);
  const { http, decision } = REFUSALS[code];
  expect({ http: want.http, status: want.status }).toEqual({
    http,
    status: decision === "DENIED" ? "denied" : "error",
  });
  if (waits !== undefined && answer) expect(answer.headers["retry-after"]).toBe(`${Math.ceil(Number(waits) / 1_000)}`);
  for (const [name, value] of Object.entries(want.headers ?? {})) expect(answer?.headers[name]).toBe(value);
}

function assertLines({ audited, want }: Row, added: readonly AuditEntry[], { heard, sent }: Played): void {
  const line = added.at(-1) as Loose | undefined;
  if (typeof audited === "string") {
    expect({ audited, lines: added.length }).toEqual({
      audited,
      lines: audited === "nothing" ? 0 : expect.any(Number),
    });
    expect(added.length).toBeLessThan(sent);
    return;
  }
  const { absent, ...wanted } = audited;
  expect(added).toHaveLength(sent);
  expect(line).toMatchObject(wanted);
  if (wanted.request?.["args"] !== undefined)
    expect(added.at(-1)?.request.args as unknown).toEqual(wanted.request["args"]);
  for (const member of absent) expect(line).not.toHaveProperty(member);
  if (typeof want === "string") return;
  expect(line?.["traceId"]).toBe(heard.reply.traceId);
  if (isRefusal(want)) assertRefusedLine({ ...want, ...wanted.denial }, line);
  else expect(line).toHaveProperty("response.filteredFields", heard.reply["filteredFields"]);
}

/** The line says what the answer says, apart from what a target says. */
function assertRefusedLine({ code, stage, message, details }: WantedRefusal, line: Loose | undefined): void {
  expect(line?.["error"]).toEqual({ code });
  const denial = { stage, reason: message, ...(details !== undefined && { details }) };
  // When a question ends depends on the clock.
  if (code === "APPROVAL_REQUIRED") expect(line?.["denial"]).toMatchObject(denial);
  else expect(withoutTimes(line?.["denial"], JSON.stringify(denial))).toEqual(denial);
  expect(line?.["decision"]).toBe(REFUSALS[code].decision);
}

/** An entry as what it is to a reader: some JSON. */
type Loose = Readonly<Record<string, unknown>>;

interface Played {
  readonly heard: Heard;
  readonly sent: number;
}

function assertIntent({ intent }: Row, line: AuditEntry | undefined, auditDir: string): void {
  const intents = journalEntries(auditDir).filter(
    ({ type, traceId }) => type === "intent" && traceId === line?.traceId,
  );
  expect(intents).toHaveLength(intent ? 1 : 0);
  if (intent) expect((intents[0]?.timestamp ?? "~") <= (line?.timestamp ?? "")).toBe(true);
}

function found(texts: readonly string[], where: string): readonly string[] {
  return texts.filter((text) => where.includes(text));
}

/** The part of a token that would let others use it. */
function signatureOf(authorization: string | undefined): readonly string[] {
  const signature = authorization?.split(".")[2]?.slice(0, 40) ?? "";
  return signature.length === 40 ? [signature] : [];
}
