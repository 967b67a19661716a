import type { KeyObject } from "node:crypto";
import { genesisOf, logIdOf, readLink, STREAMS, type StreamName } from "../chain/chain.ts";
import { ChainWalk } from "../chain/chain-walk.ts";
import { type Checkpoint, originOf, readCheckpoint } from "../chain/checkpoint.ts";
import { MerkleTree } from "../chain/merkle-tree.ts";
import { isUnsigned, verifyNote } from "../chain/signed-note.ts";
import { changedColumns, dayIn, LINE_COLUMNS } from "./columns.ts";
import { identifier, joined, type StoreAnswer, type StoreDatabase, sql } from "./sql-text.ts";

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
  readonly log: string;
  readonly stream: StreamName;
  readonly lines: number;
  readonly firstSeq: number | undefined;
  readonly lastSeq: number | undefined;
  /** Checkpoints that agree with the lines. Without a problem, a given key has signed the newest of them. */
  readonly compared: number;
  readonly problems: readonly StoreProblem[];
}

/** Rows that are read at once. */
const ROWS = 500;
/** Problems of one log that are reported. */
const PROBLEMS_MAX = 20;

/** Yields a report for each stream of each log that the store knows. */
export async function* verifyStore(
  database: StoreDatabase,
  keys: readonly KeyObject[],
): AsyncGenerator<StoredLogReport, void> {
  const { lines, logs, checkpoints } = database.dialect;
  const known = await database.read(
    sql`SELECT log, stream FROM ${logs} UNION SELECT log, stream FROM ${checkpoints}
      UNION SELECT log, stream FROM ${lines} ORDER BY log, stream`,
  );
  const [oldest] = await database.read(sql`SELECT min(time_ms) AS time_ms FROM ${lines}`);
  for (const { log, stream } of known) {
    const name = STREAMS.find((each) => each === stream);
    if (name === undefined) continue;
    const walk = new StoredLogWalk(String(log), name);
    // Read before the lines: those that are written in the meantime would look as if they were missing.
    const state = await readState(database, walk);
    walk.takeNotes(await readNotes(database, walk), keys);
    for await (const row of readRows(database, walk)) walk.take(row);
    yield walk.end(state, Number(oldest?.["time_ms"] ?? 0));
  }
}

type LogName = Pick<StoredLogReport, "log" | "stream">;

async function readNotes(database: StoreDatabase, { log, stream }: LogName): Promise<readonly string[]> {
  const rows = await database.read(
    sql`SELECT note FROM ${database.dialect.checkpoints} WHERE log = ${log} AND stream = ${stream}`,
  );
  return rows.map(({ note }) => String(note));
}

const COLUMNS = joined(
  LINE_COLUMNS.map(({ name }) => identifier(name)),
  ", ",
);

async function* readRows(database: StoreDatabase, { log, stream }: LogName): AsyncGenerator<StoreAnswer, void> {
  const { lines, day } = database.dialect;
  let after = sql``;
  for (;;) {
    const rows = await database.read(
      sql`SELECT ${COLUMNS} FROM ${lines} WHERE log = ${log} AND stream = ${stream} ${after}
        ORDER BY seq, hash, day LIMIT ${ROWS}`,
    );
    yield* rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < ROWS) return;
    // As a text: anybody may have stored a number that is not exact here.
    const seq = sql`CAST(${String(last["seq"])} AS bigint)`;
    after = sql`AND (seq, hash, day) > (${seq}, ${String(last["hash"])}, ${day(dayIn(last["day"]))})`;
  }
}

interface LogState {
  readonly nextSeq: number;
  /** Time of its newest line. */
  readonly timeMs: number;
}

async function readState(database: StoreDatabase, { log, stream }: LogName): Promise<LogState | undefined> {
  const [row] = await database.read(
    sql`SELECT next_seq, time_ms FROM ${database.dialect.logs} WHERE log = ${log} AND stream = ${stream}`,
  );
  return row && { nextSeq: Number(row["next_seq"]), timeMs: Number(row["time_ms"]) };
}

class StoredLogWalk {
  readonly log: string;
  readonly stream: StreamName;
  readonly #roots = new Map<number, Buffer>();
  readonly #problems: StoreProblem[] = [];
  #walk: ChainWalk | undefined;
  #lines = 0;
  /** Lines without a link. */
  #linesBefore = 0;
  #firstSeq: number | undefined;
  #lastSeq: number | undefined;
  #isUnsigned = false;
  #compared = 0;
  #signedSize = 0;

  constructor(log: string, stream: StreamName) {
    this.log = log;
    this.stream = stream;
  }

  takeNotes(notes: readonly string[], keys: readonly KeyObject[]): void {
    this.#isUnsigned = keys.length > 0 && notes.length === 0;
    const own = notes.flatMap((note) => this.#own(note) ?? []);
    const signed = own.filter((checkpoint) => verifyNote(checkpoint, checkpoint.origin, keys) === "valid");
    const signedSize = signed.reduce((largest, { size }) => Math.max(largest, size), -1);
    for (const checkpoint of own) {
      const problem = keys.length === 0 ? undefined : signatureProblem(checkpoint, keys, signedSize);
      if (problem === undefined) this.#addCheckpoint(checkpoint);
      else this.#problem("bad signature", `the checkpoint of ${checkpoint.size} lines ${problem}`);
    }
  }

  /** Returns the checkpoint, if it is one of this log. */
  #own(note: string): Checkpoint | undefined {
    const checkpoint = readCheckpoint(note);
    if (checkpoint?.origin === originOf(this.stream, this.log)) return checkpoint;
    this.#problem("bad signature", checkpoint ? "a checkpoint is that of another log" : "a note is no checkpoint");
    return undefined;
  }

  #addCheckpoint({ size, root }: Checkpoint): void {
    const other = this.#roots.get(size);
    if (other !== undefined && !other.equals(root)) this.#problem("fork", `two checkpoints of ${size} lines differ`);
    this.#roots.set(size, root);
    this.#signedSize = Math.max(this.#signedSize, size);
  }

  take(row: StoreAnswer): void {
    const seq = Number(row["seq"]);
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
      return;
    }
    this.#compare(seq + 1);
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

  #compare(size: number): void {
    const [root, tree] = [this.#roots.get(size), this.#walk?.tree];
    if (root === undefined || tree === undefined) return;
    if (tree.root().equals(root)) this.#compared += 1;
    else this.#problem("checkpoint mismatch", `the ${size} lines are not those that were signed`);
  }

  /** `oldestMs`: time of the oldest line of the store. Retention may have deleted a log whose newest line is older. */
  end(state: LogState | undefined, oldestMs: number): StoredLogReport {
    const [next, signed, stored] = [(this.#lastSeq ?? -1) + 1, this.#signedSize, state?.nextSeq ?? 0];
    const isRetained = state !== undefined && state.timeMs < oldestMs;
    if (this.#lines === 0 && !isRetained) this.#problem("missing log", "no line is stored");
    else if (this.#lines > 0 && next < Math.max(signed, stored)) {
      const [size, known] = signed >= stored ? [signed, "signed"] : [stored, "stored"];
      this.#problem("cut off", `seq ${next} to ${size - 1} were ${known} and are missing`);
    }
    if (this.#isUnsigned && this.#lines > 0) this.#problem("not signed", "there is no checkpoint");
    return {
      log: this.log,
      stream: this.stream,
      lines: this.#lines,
      firstSeq: this.#firstSeq,
      lastSeq: this.#lastSeq,
      compared: this.#compared,
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
