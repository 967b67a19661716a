import { createHash, type KeyObject, verify } from "node:crypto";
import fs from "node:fs";
import { join } from "node:path";

// A verifier written from docs/audit.md ("Write a verifier") alone: it imports nothing of the product. Where the page is
// not enough to write it, the page is wrong. "C2" below is rule 2 under "Checkpoints", "F2" rule 2 under "Files and lines".

const STREAMS = ["calls", "journal"] as const;
type Stream = (typeof STREAMS)[number];

/** What is wrong, one sentence each; none when the log is sound. A torn end is told as "torn end". */
export function verifyIndependently(dir: string, key: KeyObject | undefined): readonly string[] {
  const findings: string[] = [];
  const place = readPlace(dir);
  const notes = readNotes(dir, findings);
  if (notes.some(({ stream }) => stream === undefined)) findings.push("a note is not a checkpoint");
  const logs = { calls: readStream(dir, "calls", findings), journal: readStream(dir, "journal", findings) };
  for (const stream of STREAMS) {
    const log = logs[stream];
    compareNotes(log, { notes: notes.filter((note) => note.stream === stream), key, findings });
    const lines = log.firstSeq + log.leaves.length;
    const saved = place?.[stream];
    if (saved !== undefined && lines < saved.seq) findings.push(`${stream}: fewer lines than the saved place says`);
    const newest = notes.findLast((note) => note.stream === stream)?.size ?? 0;
    if (saved?.note !== undefined && newest < Number(saved.note.split("\n")[1]))
      findings.push("a checkpoint is missing");
  }
  if (logs.calls.lastIntent >= logs.journal.firstSeq + logs.journal.leaves.length)
    findings.push("the journal lost its end");
  if (key !== undefined && notes.length === 0 && logs.calls.leaves.length > 0) findings.push("not signed");
  return findings;
}

const sha256 = (...parts: readonly (string | Uint8Array)[]): Buffer => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
};

interface Log {
  readonly stream: Stream;
  readonly logId: string | undefined;
  readonly firstSeq: number;
  readonly leaves: readonly Buffer[];
  /** Roots of the full subtrees of the lines that were pruned, with their sizes; `undefined` when nobody kept them. */
  readonly pruned: readonly Subtree[] | undefined;
  readonly lastIntent: number;
}

const DAY_FILE = /^\d{4}-\d{2}-\d{2}\.jsonl$/;
/** F4. In Latin-1 a byte is a character. */
const LINK = /,"seq":(0|[1-9]\d*),"prev":"([^"]{64})","hash":"([^"]{64})"\}$/;

function filesOf(dir: string, stream: Stream): readonly string[] {
  const folder = stream === "calls" ? dir : join(dir, "journal");
  const names = fs.existsSync(folder) ? fs.readdirSync(folder) : [];
  return names
    .filter((name) => DAY_FILE.test(name))
    .sort()
    .map((name) => join(folder, name));
}

function readStream(dir: string, stream: Stream, findings: string[]): Log {
  const genesis = createHash("sha256").update(`stc-audit/1\n${stream}\n`);
  const leaves: Buffer[] = [];
  let [expected, firstSeq, lastIntent]: [{ seq: number; prev: string } | undefined, number, number] = [
    undefined,
    0,
    -1,
  ];
  let logId: string | undefined;
  let pruned: readonly Subtree[] | undefined = [];
  const files = filesOf(dir, stream);
  for (const [index, path] of files.entries()) {
    if (!fs.lstatSync(path).isFile()) {
      findings.push(`${path}: not a regular file`);
      continue;
    }
    const { lines, rest } = splitLines(fs.readFileSync(path));
    if (rest > 0) findings.push(index === files.length - 1 ? "torn end" : `${path}: bytes without a line end`);
    for (const [number, line] of lines.entries()) {
      const at = `${path}, line ${number + 1}`;
      const link = LINK.exec(line.toString("latin1"));
      if (link === null) {
        if (expected !== undefined) findings.push(`${at}: does not belong to the chain`);
        genesis.update(line).update("\n");
        continue;
      }
      const [whole, seq = "", prev = "", hash = ""] = link;
      if (expected === undefined) {
        const cut = recordFor(dir, stream, Number(seq));
        expected = cut ?? { seq: 0, prev: genesis.copy().digest("hex") };
        [logId, pruned, firstSeq] = [cut?.logId, cut === undefined ? [] : cut.subtrees, expected.seq];
      }
      const hashed = line.subarray(0, line.length - `,"hash":"${hash}"}`.length);
      if (whole === "" || sha256(hashed).toString("hex") !== hash) findings.push(`${at}: was changed`);
      if (Number(seq) !== expected.seq || prev !== expected.prev) findings.push(`${at}: does not follow`);
      const day = path.slice(-"YYYY-MM-DD.jsonl".length, -".jsonl".length);
      if (!line.toString("latin1").startsWith(`{"timestamp":"${day}`)) findings.push(`${at}: is not of ${day}`);
      const intent = /,"intentSeq":(\d+)$/.exec(line.subarray(0, line.length - whole.length).toString("latin1"));
      lastIntent = Math.max(lastIntent, Number(intent?.[1] ?? -1));
      leaves.push(sha256(Uint8Array.of(0), line));
      if (expected.seq === 0) logId = hash.slice(0, 32);
      expected = { seq: expected.seq + 1, prev: hash };
    }
  }
  return { stream, logId, firstSeq, leaves, pruned, lastIntent };
}

function splitLines(bytes: Buffer): { readonly lines: readonly Buffer[]; readonly rest: number } {
  const lines: Buffer[] = [];
  let from = 0;
  for (let to = bytes.indexOf(0x0a); to !== -1; to = bytes.indexOf(0x0a, from)) {
    lines.push(bytes.subarray(from, to));
    from = to + 1;
  }
  return { lines, rest: bytes.length - from };
}

interface PrunedRecord {
  readonly stream?: string;
  readonly nextSeq?: number;
  readonly nextPrev?: string;
  readonly lastSeq?: number;
  readonly lastHash?: string;
  readonly logId?: string;
  readonly hashes?: readonly string[];
}

/** F8. */
function recordFor(dir: string, stream: Stream, seq: number) {
  const path = join(dir, "pruned.jsonl");
  const lines = fs.existsSync(path) ? fs.readFileSync(path, "utf8").split("\n") : [];
  const records = lines.map((line) => parsed<PrunedRecord>(line)).filter((record) => record?.stream === stream);
  const nextOf = (record: PrunedRecord | undefined) => record?.nextSeq ?? (record?.lastSeq ?? Number.NaN) + 1;
  const record = records.findLast((one) => nextOf(one) === seq);
  const prev = record?.nextPrev ?? record?.lastHash;
  if (record === undefined || prev === undefined) return undefined;
  return { seq, prev, logId: record.logId, subtrees: record.hashes && subtreesOf(seq, record.hashes) };
}

function parsed<T>(text: string): T | undefined {
  try {
    return JSON.parse(text) as T;
  } catch {
    return undefined;
  }
}

interface Subtree {
  readonly size: number;
  readonly root: Buffer;
}

const nodeOf = (left: Buffer, right: Buffer): Buffer => sha256(Uint8Array.of(1), left, right);

/** C1: the sizes are the powers of two in `count`, the largest first. */
function subtreesOf(count: number, hashes: readonly string[]): readonly Subtree[] {
  const sizes = [...count.toString(2)].map((bit, at, bits) => (bit === "1" ? 2 ** (bits.length - 1 - at) : 0));
  return sizes.filter((size) => size > 0).map((size, at) => ({ size, root: Buffer.from(hashes[at] ?? "", "base64") }));
}

/** The root over what was pruned and the first of the lines that are left. */
function rootOf({ pruned, leaves, firstSeq }: Log, size: number): Buffer | undefined {
  if (pruned === undefined || size < firstSeq || size > firstSeq + leaves.length) return undefined;
  const stack: Subtree[] = [...pruned];
  for (const root of leaves.slice(0, size - firstSeq)) {
    let top: Subtree = { size: 1, root };
    for (let left = stack.at(-1); left?.size === top.size; left = stack.at(-1)) {
      stack.pop();
      top = { size: left.size * 2, root: nodeOf(left.root, top.root) };
    }
    stack.push(top);
  }
  const roots = stack.map(({ root }) => root);
  return roots.length === 0 ? sha256() : roots.reduceRight((right, left) => nodeOf(left, right));
}

interface Note {
  readonly stream: Stream | undefined;
  readonly origin: string;
  readonly size: number;
  readonly root: string;
  readonly text: string;
  readonly signatures: readonly string[];
}

/** C2. */
function readNotes(dir: string, findings: string[]): readonly Note[] {
  const folder = join(dir, "checkpoints");
  const names = fs.existsSync(folder)
    ? fs.readdirSync(folder).filter((name) => /^\d{4}-\d{2}-\d{2}\.txt$/.test(name))
    : [];
  return names.sort().flatMap((name) => {
    const parts = fs.readFileSync(join(folder, name), "utf8").split("\n\n");
    if (parts.pop() !== "" || parts.length % 2 === 1) findings.push(`${name}: ends within a note`);
    const texts = parts.filter((_part, at) => at % 2 === 0);
    return texts.map((text, at) => noteOf(`${text}\n`, parts[at * 2 + 1] ?? ""));
  });
}

function noteOf(text: string, signatures: string): Note {
  const [origin = "", size = "", root = "", ...rest] = text.split("\n");
  const [, stream] = /^safe-tool-call\/audit\/(calls|journal)\/[0-9a-f]{32}$/.exec(origin) ?? [];
  const isNote = rest.join() === "" && /^(0|[1-9]\d*)$/.test(size) && Buffer.from(root, "base64").length === 32;
  return {
    stream: isNote ? (stream as Stream | undefined) : undefined,
    ...{ origin, root, text, size: Number(size), signatures: signatures.split("\n") },
  };
}

interface Comparison {
  readonly notes: readonly Note[];
  readonly key: KeyObject | undefined;
  readonly findings: string[];
}

function compareNotes(log: Log, { notes, key, findings }: Comparison): void {
  let before = 0;
  for (const note of notes) {
    const { origin, size, root } = note;
    const at = `checkpoint of ${size} lines`;
    if (log.logId !== undefined && !origin.endsWith(`/${log.logId}`)) findings.push(`${at}: of another log`);
    if (size < before) findings.push(`${at}: covers fewer lines than one before it`);
    before = size;
    const own = rootOf(log, size);
    if (size > log.firstSeq + log.leaves.length) findings.push(`${at}: the log has fewer lines`);
    else if (own !== undefined && own.toString("base64") !== root) findings.push(`${at}: another root`);
    if (key !== undefined && !isSigned(note, key) && !isReplaced(note, notes, key))
      findings.push(`${at}: not signed by the key`);
  }
}

/** C6: the service has another key by now, which signed the same lines again. */
function isReplaced(note: Note, notes: readonly Note[], key: KeyObject): boolean {
  const isByOther = !note.signatures.some((line) => claims(line, note, key));
  const hasSignature = note.signatures.some((line) => line.startsWith(`— ${note.origin} `));
  return isByOther && hasSignature && notes.slice(notes.indexOf(note)).some((later) => isSigned(later, key));
}

const signatureIn = (line: string): Buffer => Buffer.from(line.split(" ")[2] ?? "", "base64");

/** The signature line names this key. */
function claims(line: string, { origin }: Note, key: KeyObject): boolean {
  const raw = key.export({ format: "der", type: "spki" }).subarray(-32);
  const id = sha256(origin, "\n", Uint8Array.of(1), raw).subarray(0, 4);
  return line.startsWith(`— ${origin} `) && signatureIn(line).subarray(0, 4).equals(id);
}

/** C5. */
function isSigned(note: Note, key: KeyObject): boolean {
  const own = note.signatures.filter((line) => claims(line, note, key));
  return (
    own.length > 0 && own.every((line) => verify(null, Buffer.from(note.text), key, signatureIn(line).subarray(4)))
  );
}

interface SavedStream {
  readonly seq: number;
  readonly note?: string;
}

function readPlace(dir: string): Readonly<Record<Stream, SavedStream>> | undefined {
  const path = join(dir, ".state/place.json");
  const [json = "", sum] = fs.existsSync(path) ? fs.readFileSync(path, "utf8").split("\n") : [];
  return sha256(json).toString("hex") === sum ? parsed(json) : undefined;
}

/** "Proofs". */
export function checkProofIndependently(text: string, key: KeyObject): boolean {
  const proof = parsed<{ type: string; line: string; index: number; hashes: string[]; checkpoint: string }>(text);
  if (proof?.type !== "safe-tool-call/audit-proof/1") return false;
  const [body = "", signatures = ""] = proof.checkpoint.split("\n\n");
  const note = noteOf(`${body}\n`, signatures.trimEnd());
  const { index } = proof;
  const seq = LINK.exec(Buffer.from(proof.line).toString("latin1"))?.[1];
  if (note.stream !== "calls" || !isSigned(note, key) || index >= note.size || seq !== String(index)) return false;
  let [fn, sn, root] = [index, note.size - 1, sha256(Uint8Array.of(0), proof.line)];
  for (const hash of proof.hashes.map((one) => Buffer.from(one, "base64"))) {
    if (sn === 0) return false;
    if (fn % 2 === 1 || fn === sn) {
      root = nodeOf(hash, root);
      for (; fn % 2 === 0 && fn !== 0; sn = Math.floor(sn / 2)) fn /= 2;
    } else root = nodeOf(root, hash);
    [fn, sn] = [Math.floor(fn / 2), Math.floor(sn / 2)];
  }
  return sn === 0 && root.toString("base64") === note.root;
}
