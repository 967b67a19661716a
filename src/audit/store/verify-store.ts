import type { KeyObject } from "node:crypto";
import { genesisOf, logIdOf, readLink, STREAMS, type StreamName } from "../chain/chain.ts";
import { ChainWalk } from "../chain/chain-walk.ts";
import { type Checkpoint, originOf, readCheckpoint, readOrigin } from "../chain/checkpoint.ts";
import { MerkleTree } from "../chain/merkle-tree.ts";
import { isUnsigned, verifyNote } from "../chain/signed-note.ts";
import { UnsignedLines } from "../verify/verify-checkpoints.ts";
import { originsNamedIn } from "../verify/worker-logs.ts";
import { changedColumns, dayIn, LINE_COLUMNS, stored } from "./columns.ts";
import { identifier, joined, type SqlText, type StoreAnswer, type StoreDatabase, sql } from "./sql-text.ts";
import { HAS_TIME } from "./statements.ts";

/**
 * Checks the lines of a store: each log's chain, against its checkpoints where its first line is still stored. Finds what is missing
 * in the store, whoever lost it: a replica that did not send it, the database, or a person.
 */

interface StoreProblem {
  readonly kind:
    | "missing log"
    | "gap"
    | "fork"
    | "changed"
    | "cut off"
    | "checkpoint mismatch"
    | "bad signature"
    | "not signed";
  readonly message: string;
}

interface StoredLogReport {
  /** Id of the log, or the expected name that no log has. */
  readonly log: string;
  readonly stream: StreamName | undefined;
  /** The replica that wrote its newest line. */
  readonly instance: string | undefined;
  readonly lines: number;
  readonly firstSeq: number | undefined;
  readonly lastSeq: number | undefined;
  /** Checkpoints that agree with the lines. Without a problem, a given key has signed the newest of them. */
  readonly compared: number;
  /** Lines that the newest checkpoint covers, of the given keys if there are any. */
  readonly signedSize: number;
  /** Stored lines that it does not cover: the service signs a line about a second after it was written. */
  readonly unsignedLines: number;
  readonly problems: readonly StoreProblem[];
}

export interface StoreVerification {
  /** Without keys, signatures are not checked. */
  readonly keys: readonly KeyObject[];
  /** Ids of logs, and names of instances, that must have lines. */
  readonly expected: readonly string[];
  /** Waits about a second, in which exporters send what they have. */
  readonly pause: () => Promise<void>;
}

/** Pauses of one verification. */
const PAUSES_MAX = 5;
/** Rows that are read at once. */
const ROWS = 500;
/** Problems of one log that are reported. */
const PROBLEMS_MAX = 20;

/** Yields a report for each stream of each log that the store knows, and for each that is expected and that it does not know. */
export async function* verifyStore(
  database: StoreDatabase,
  { keys, expected, pause }: StoreVerification,
): AsyncGenerator<StoredLogReport, void> {
  const { lines, logs, checkpoints } = database.dialect;
  const known = await database.read(
    sql`SELECT log, stream FROM (
        SELECT log, stream FROM ${logs} UNION DISTINCT SELECT log, stream FROM ${checkpoints}
        UNION DISTINCT SELECT log, stream FROM ${lines}
      ) AS known ORDER BY log, stream`,
  );
  const [oldest] = await database.read(sql`SELECT min(time_ms) AS oldest_ms FROM ${lines} WHERE ${HAS_TIME}`);
  const roster = new Roster(expected);
  const patience = new Patience(pause);
  for (const { log, stream } of known) {
    const name = STREAMS.find((each) => each === stream);
    if (name === undefined) continue;
    const walk = new StoredLogWalk({ log: String(log), stream: name }, keys);
    await verifyStoredLog(database, walk, { roster, patience });
    const report = walk.end(Number(oldest?.["oldest_ms"] ?? 0));
    roster.found(report);
    yield report;
  }
  yield* roster.missing(database, patience);
}

/** Waits for lines that may not be sent yet: a journal, or a checkpoint, may be sent before the lines that it is about. */
class Patience {
  readonly #pause: () => Promise<void>;
  #left = PAUSES_MAX;

  constructor(pause: () => Promise<void>) {
    this.#pause = pause;
  }

  /** Returns false when it is not worth waiting any longer. */
  async wait(): Promise<boolean> {
    if (this.#left === 0) return false;
    this.#left -= 1;
    await this.#pause();
    return true;
  }
}

interface Verifying {
  readonly roster: Roster;
  readonly patience: Patience;
}

async function verifyStoredLog(
  database: StoreDatabase,
  walk: StoredLogWalk,
  { roster, patience }: Verifying,
): Promise<void> {
  const { log, stream } = walk;
  // Read before the lines: those that are written in the meantime would look as if they were missing.
  const state = await readState(database, walk);
  const signed = await readSigned(database, walk, walk.keys);
  walk.begin(signed, state);
  const notes = readNotes(database, walk, sql`AND size <= ${exact(signed.newest)}`);
  let note = await notes.next();
  let last: StoreAnswer | undefined;
  do {
    for await (const row of readRows(database, walk, last)) {
      last = row;
      walk.take(row);
      if (stream === "journal") roster.take(String(row["line"]), log);
      for (; note.done !== true && Number(note.value["size"]) <= walk.size; note = await notes.next()) {
        walk.takeNote(note.value);
      }
    }
  } while (walk.size < signed.size && signed.size > (state?.nextSeq ?? 0) && (await patience.wait()));
  for (; note.done !== true; note = await notes.next()) walk.takeNote(note.value);
  // The checkpoints may have been sent after their lines.
  if (walk.isDowngraded) walk.isSignedFurther = (await readSigned(database, walk, walk.keys)).size > signed.size;
}

type LogName = Pick<StoredLogReport, "log"> & { readonly stream: StreamName };

/** Logs that must be in the store: those that the journals of others name, and those that the operator names. */
class Roster {
  readonly #expected: readonly string[];
  /** Origins of logs, with the log whose journal names each. */
  readonly #named = new Map<string, string>();
  /** Origins, ids and instances of the logs that the store knows. */
  readonly #known = new Set<string>();

  constructor(expected: readonly string[]) {
    this.#expected = expected;
  }

  take(line: string, log: string): void {
    for (const origin of originsNamedIn(line)) this.#named.set(origin, log);
  }

  found({ log, stream, instance, problems }: StoredLogReport): void {
    if (stream !== undefined) this.#known.add(originOf(stream, log));
    if (problems.some(({ kind }) => kind === "missing log")) return;
    this.#known.add(log);
    if (instance !== undefined) this.#known.add(instance);
  }

  async *missing(database: StoreDatabase, patience: Patience): AsyncGenerator<StoredLogReport, void> {
    for (const [origin, by] of this.#named) {
      const name = this.#known.has(origin) ? undefined : readOrigin(origin);
      if (name === undefined) continue;
      const hasBegun = () => hasLines(database, { log: name.logId, stream: name.stream });
      let isThere = await hasBegun();
      while (!isThere && (await patience.wait())) isThere = await hasBegun();
      if (isThere) continue;
      yield missingLog(
        { log: name.logId, stream: name.stream },
        `the journal of log ${by} names it, and no line is stored`,
      );
    }
    for (const log of this.#expected) {
      if (!this.#known.has(log)) yield missingLog({ log }, "it is expected, and no line is stored");
    }
  }
}

function missingLog({ log, stream }: Pick<StoredLogReport, "log"> & Partial<LogName>, message: string) {
  const counts = { lines: 0, firstSeq: undefined, lastSeq: undefined, compared: 0, signedSize: 0, unsignedLines: 0 };
  return { log, stream, instance: undefined, ...counts, problems: [{ kind: "missing log", message }] } as const;
}

async function hasLines(database: StoreDatabase, { log, stream }: LogName): Promise<boolean> {
  const { lines } = database.dialect;
  const found = await database.read(sql`SELECT seq FROM ${lines} WHERE log = ${log} AND stream = ${stream} LIMIT ${1}`);
  return found.length > 0;
}

/** Reads a table in parts, after a row. `statement` returns at most `ROWS` rows after a position. */
async function* readParts(
  database: StoreDatabase,
  statement: (after: SqlText) => SqlText,
  positionOf: (row: StoreAnswer) => SqlText,
  from?: StoreAnswer,
): AsyncGenerator<StoreAnswer, void> {
  let last = from;
  for (;;) {
    const rows = await database.read(statement(last === undefined ? sql`` : positionOf(last)));
    yield* rows;
    last = rows.at(-1);
    if (last === undefined || rows.length < ROWS) return;
  }
}

/** Returns an integer as a text: anybody may have stored one that is not exact as a number. */
function exact(value: unknown): SqlText {
  return sql`CAST(${String(value)} AS bigint)`;
}

/** The sizes of the newest checkpoints of a log. */
interface Signed {
  /** The newest checkpoint that a given key has signed, or any without keys; -1 without one. */
  readonly size: number;
  /** The newest row, whatever it holds; 0 without one. */
  readonly newest: unknown;
}

async function readSigned(database: StoreDatabase, name: LogName, keys: readonly KeyObject[]): Promise<Signed> {
  const origin = originOf(name.stream, name.log);
  let newest: unknown;
  for await (const { size, note } of readNotes(database, name, sql``, "DESC")) {
    newest ??= size;
    const checkpoint = readCheckpoint(String(note));
    if (checkpoint?.origin !== origin) continue;
    if (keys.length === 0 || verifyNote(checkpoint, origin, keys) === "valid") return { size: checkpoint.size, newest };
  }
  return { size: -1, newest: newest ?? 0 };
}

function readNotes(database: StoreDatabase, { log, stream }: LogName, also: SqlText, order: "ASC" | "DESC" = "ASC") {
  const { checkpoints } = database.dialect;
  const [sorted, beyond] =
    order === "ASC" ? [sql`size, note`, sql`(size, note) >`] : [sql`size DESC, note DESC`, sql`(size, note) <`];
  return readParts(
    database,
    (after) => sql`SELECT size, note FROM ${checkpoints} WHERE log = ${log} AND stream = ${stream} ${also} ${after}
      ORDER BY ${sorted} LIMIT ${ROWS}`,
    ({ size, note }) => sql`AND ${beyond} (${exact(size)}, ${String(note)})`,
  );
}

const COLUMNS = joined(
  LINE_COLUMNS.map(({ name }) => identifier(name)),
  ", ",
);

function readRows(database: StoreDatabase, { log, stream }: LogName, from?: StoreAnswer) {
  const { lines, day } = database.dialect;
  return readParts(
    database,
    (after) => sql`SELECT ${COLUMNS} FROM ${lines} WHERE log = ${log} AND stream = ${stream} ${after}
      ORDER BY seq, hash, day LIMIT ${ROWS}`,
    ({ seq, hash, day: of }) => sql`AND (seq, hash, day) > (${exact(seq)}, ${String(hash)}, ${day(dayIn(of))})`,
    from,
  );
}

interface LogState {
  readonly instance: string;
  readonly nextSeq: number;
  /** Time of its newest line. */
  readonly timeMs: number;
}

async function readState(database: StoreDatabase, { log, stream }: LogName): Promise<LogState | undefined> {
  const [row] = await database.read(
    sql`SELECT instance, next_seq, time_ms FROM ${database.dialect.logs} WHERE log = ${log} AND stream = ${stream}`,
  );
  if (row === undefined) return undefined;
  const { instance, next_seq, time_ms } = row;
  return { instance: stored(String(instance)), nextSeq: Number(next_seq), timeMs: Number(time_ms) };
}

class StoredLogWalk {
  readonly log: string;
  readonly stream: StreamName;
  readonly keys: readonly KeyObject[];
  readonly #problems: StoreProblem[] = [];
  #state: LogState | undefined;
  /** Lines that a given key has signed, or any key if none is given. */
  #signed: Pick<Signed, "size"> = { size: -1 };
  #unsigned = new UnsignedLines(0);
  #unsignedLines = 0;
  #walk: ChainWalk | undefined;
  #instance: string | undefined;
  #lines = 0;
  /** Lines without a link. */
  #linesBefore = 0;
  #firstSeq: number | undefined;
  #lastSeq: number | undefined;
  #note: Checkpoint | undefined;
  #notes = 0;
  #compared = 0;
  #signedSize = 0;
  /** True when more lines have been signed since the walk began. */
  isSignedFurther = false;

  constructor({ log, stream }: LogName, keys: readonly KeyObject[]) {
    this.log = log;
    this.stream = stream;
    this.keys = keys;
  }

  /** Number of lines up to the last one that was taken. */
  get size(): number {
    return (this.#lastSeq ?? -1) + 1;
  }

  /** True when the log continues without signatures, for longer than a service that signs writes before it signs. */
  get isDowngraded(): boolean {
    return this.keys.length > 0 && this.#signed.size > 0 && this.#unsigned.downgrade() !== undefined;
  }

  begin(signed: Signed, state: LogState | undefined): void {
    this.#state = state;
    this.#signed = signed;
    this.#unsigned = new UnsignedLines(Math.max(0, signed.size));
  }

  /** Takes the next checkpoint, after the lines that it covers. */
  takeNote({ size, note }: StoreAnswer): void {
    this.#notes += 1;
    const checkpoint = this.#own(String(note));
    if (checkpoint === undefined) return;
    const problem = this.keys.length === 0 ? undefined : signatureProblem(checkpoint, this.keys, this.#signed.size);
    if (problem !== undefined) {
      this.#problem("bad signature", `the checkpoint of ${checkpoint.size} lines ${problem}`);
    } else if (Number(size) !== checkpoint.size) {
      this.#problem("changed", `the checkpoint of ${checkpoint.size} lines is stored as one of ${String(size)}`);
    } else this.#compare(checkpoint);
  }

  /** Returns the checkpoint, if it is one of this log. */
  #own(note: string): Checkpoint | undefined {
    const checkpoint = readCheckpoint(note);
    if (checkpoint?.origin === originOf(this.stream, this.log)) return checkpoint;
    this.#problem("bad signature", checkpoint ? "a checkpoint is that of another log" : "a note is no checkpoint");
    return undefined;
  }

  #compare(checkpoint: Checkpoint): void {
    const { size, root } = checkpoint;
    const before = this.#note;
    if (before?.size === size && !before.root.equals(root))
      this.#problem("fork", `two checkpoints of ${size} lines differ`);
    this.#note = checkpoint;
    this.#signedSize = Math.max(this.#signedSize, size);
    const { tree } = this.#walk ?? {};
    if (tree?.size !== size) return;
    if (tree.root().equals(root)) this.#compared += 1;
    else this.#problem("checkpoint mismatch", `the ${size} lines are not those that were signed`);
  }

  take(row: StoreAnswer): void {
    const seq = Number(row["seq"]);
    const { instance } = row;
    if (typeof instance === "string") this.#instance = stored(instance);
    // The walk may overwrite the byte before a line.
    const bytes = Buffer.from(` ${String(row["line"])}`);
    this.#lines += 1;
    const changed = changedColumns(row, this.stream);
    if (changed.length > 0)
      this.#problem("changed", `the line of seq ${seq} has other values of ${changed.join(", ")}`);
    if (seq < 0) {
      this.#linesBefore += 1;
      return;
    }
    this.#firstSeq ??= seq;
    this.#countUnsigned(seq, row["time_ms"]);
    if (seq === this.#lastSeq) {
      this.#problem("fork", `two lines have seq ${seq}`);
      return;
    }
    const isGap = this.#lastSeq !== undefined && seq !== this.#lastSeq + 1;
    if (isGap) this.#problem("gap", `seq ${Number(this.#lastSeq) + 1} to ${seq - 1} are missing`);
    this.#lastSeq = seq;
    if (this.#walk === undefined || isGap) this.#walk = this.#begin(bytes, seq);
    if (!this.#walk.take(bytes, 1, bytes.length)) {
      this.#problem("changed", `the line of seq ${seq} does not follow from the one before`);
      this.#walk = ChainWalk.fromWithin();
    }
  }

  #countUnsigned(seq: number, timeMs: unknown): void {
    if (seq >= Math.max(0, this.#signed.size)) this.#unsignedLines += 1;
    // Lines that were stored after the checkpoints were read are not compared with these.
    if (seq < (this.#state?.nextSeq ?? Number.POSITIVE_INFINITY))
      this.#unsigned.take(seq, timeMs === null ? Number.NaN : Number(timeMs));
  }

  /** Returns a walk from this line on: only from the first line of a log can checkpoints be compared. */
  #begin(bytes: Buffer, seq: number): ChainWalk {
    const link = readLink(bytes, 1, bytes.length);
    if (seq !== 0 || link?.seq !== 0) return ChainWalk.fromWithin();
    if (logIdOf(link.hash) !== this.log) this.#problem("changed", "the first line is that of another log");
    const isFirst = link.prev === genesisOf(this.stream).digest("hex");
    if (isFirst && this.#linesBefore > 0)
      this.#problem("changed", `${this.#linesBefore} lines without a link were added: the log has none`);
    return ChainWalk.after({ seq: 0, prev: link.prev, tree: new MerkleTree(), logId: undefined });
  }

  /** `oldestMs`: time of the oldest line of the store. Retention may have deleted a log whose newest line is older. */
  end(oldestMs: number): StoredLogReport {
    const state = this.#state;
    const [next, signed, known] = [this.size, this.#signedSize, state?.nextSeq ?? 0];
    const isRetained = state !== undefined && state.timeMs < oldestMs;
    if (this.#lines === 0 && !isRetained) this.#problem("missing log", "no line is stored");
    else if (this.#lines > 0 && next < Math.max(signed, known)) {
      const [size, were] = signed >= known ? [signed, "signed"] : [known, "stored"];
      this.#problem("cut off", `seq ${next} to ${size - 1} were ${were} and are missing`);
    }
    if (this.#lines > 0 && this.keys.length > 0 && this.#notes === 0) {
      this.#problem("not signed", "there is no checkpoint");
    } else if (this.isDowngraded && !this.isSignedFurther) {
      this.#problem("not signed", `no given key signed the lines from seq ${this.#signed.size} on, for over a minute`);
    }
    return {
      log: this.log,
      stream: this.stream,
      instance: this.#instance ?? state?.instance,
      lines: this.#lines,
      firstSeq: this.#firstSeq,
      lastSeq: this.#lastSeq,
      compared: this.#compared,
      signedSize: Math.max(0, this.#signed.size),
      unsignedLines: this.#unsignedLines,
      problems: this.#problems,
    };
  }

  #problem(kind: StoreProblem["kind"], message: string): void {
    if (this.#problems.length < PROBLEMS_MAX) this.#problems.push({ kind, message });
  }
}

/**
 * Returns what is wrong with the signature. Another key may have signed a checkpoint of lines that one by a given key covers: the key
 * was replaced.
 */
function signatureProblem(checkpoint: Checkpoint, keys: readonly KeyObject[], signedSize: number): string | undefined {
  const { origin, size } = checkpoint;
  if (isUnsigned(checkpoint, origin)) return "has no signature of this log";
  const verdict = verifyNote(checkpoint, origin, keys);
  if (verdict === "bad signature") return "has a wrong signature";
  return verdict === "valid" || size <= signedSize ? undefined : "is not signed by a given key";
}
