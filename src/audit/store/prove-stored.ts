import { originOf, readCheckpoint } from "../chain/checkpoint.ts";
import { AuditPath, type LineName, leadsToRoot, type Proof, proofOf } from "../chain/proof.ts";
import { type StoreDatabase, sql } from "./sql-text.ts";
import { NotProvable } from "./store-error.ts";

/** Rows that are read at once. */
const ROWS = 1_000;

/**
 * Proves a line from the stored lines of its log and the newest checkpoint that covers no more than these. Whoever checks the proof
 * need not trust the store.
 *
 * @throws {NotProvable} when the store does not hold what the proof needs
 */
export async function proveStored(database: StoreDatabase, { log, seq }: LineName): Promise<Proof> {
  const { lines, checkpoints } = database.dialect;
  const own = sql`log = ${log} AND stream = ${"calls"}`;
  const [range] = await database.read(
    sql`SELECT min(seq) AS oldest, max(seq) AS newest, count(*) AS total FROM ${lines} WHERE ${own} AND seq >= ${0}`,
  );
  // Without lines, `min` and `max` are NULL or 0.
  const stored = Number(range?.["total"]) === 0 ? 0 : Number(range?.["newest"]) + 1;
  if (seq >= stored) throw new NotProvable(`the store holds no line of seq ${seq} of the log ${log}`);
  if (Number(range?.["oldest"]) > 0)
    throw new NotProvable(`the store no longer holds the first lines of the log ${log}: ${ELSEWHERE}`);
  const [row] = await database.read(
    sql`SELECT note FROM ${checkpoints} WHERE ${own} AND size > ${seq} AND size <= ${stored} ORDER BY size DESC, note LIMIT 1`,
  );
  const note = String(row?.["note"] ?? "");
  const checkpoint = readCheckpoint(note);
  if (checkpoint?.origin !== originOf("calls", log)) {
    throw new NotProvable(
      `the store has no checkpoint that covers seq ${seq} of the log ${log} yet: repeat in a minute`,
    );
  }
  const path = new AuditPath(seq, checkpoint.size);
  let line = "";
  for (let isWanted = true; isWanted; ) {
    const rows = await database.read(
      sql`SELECT seq, line FROM ${lines} WHERE ${own} AND seq >= ${path.next} ORDER BY seq, hash LIMIT ${ROWS}`,
    );
    if (Number(rows[0]?.["seq"]) !== path.next) {
      throw new NotProvable(`the store lacks seq ${path.next} of the log ${log}: ${ELSEWHERE}`);
    }
    for (const { seq: at, line: text } of rows) {
      if (!isWanted || Number(at) !== path.next) break;
      if (path.next === seq) line = String(text);
      const bytes = Buffer.from(` ${String(text)}`);
      isWanted = path.add(bytes, 1, bytes.length);
    }
  }
  const proof = proofOf({ line, path, checkpoint: note });
  if (!leadsToRoot(proof, checkpoint)) {
    throw new NotProvable(
      `the stored lines of the log ${log} are not those that its checkpoint covers: stc audit verify --from-store shows more`,
    );
  }
  return proof;
}

const ELSEWHERE = "prove the line from the log's own directory, or from a copy of it, with --dir";
