import { names, words } from "../names.ts";
import { has, type Invocation, isOne, operandsOf, valuesOf } from "./invocation.ts";
import { globMatches, plainPath, type ShellDirectories } from "./place.ts";
import { namedBy } from "./secret-readers.ts";
import { UNKNOWN } from "./word.ts";
import { writtenBy } from "./writes.ts";

/** Programs that print or keep what somebody else on the network says. */
export const FETCHERS = names(
  "curl wget wget2 fetch aria2c axel lynx w3m links elinks http https xh curlie nc ncat netcat socat telnet ftp tftp ssh scp",
  "dig nslookup host drill GET websocat rclone gsutil s3cmd lftp sftp nc.traditional nc.openbsd mosquitto_sub",
);

/** What of a script comes from the network. */
export interface Fetched {
  /** Files that are fetched, or made of such. */
  readonly files: ReadonlySet<string>;
  /** Programs that print such files. */
  readonly carriers: ReadonlySet<string>;
}

/** Copies of copies that are followed. */
const ROUNDS_MAX = 4;

type Bodies = ReadonlyMap<string, ReadonlySet<Invocation>>;

export function fetchedBy(invocations: readonly Invocation[], bodies: Bodies): Fetched {
  const files = new Set<string>();
  const carriers = new Set<string>();
  if (!invocations.some(({ program }) => FETCHERS.has(program))) return { files, carriers };
  for (let round = 0, before = -1; round < ROUNDS_MAX && files.size > before; round += 1) {
    before = files.size;
    for (const run of invocations) {
      const carries = readsOne(run, files);
      if (carries) carriers.add(run.family);
      const isFed = run.fedBy.some((program) => FETCHERS.has(program)) || isFetching(bodies.get(run.spelled));
      for (const path of keptBy(run, { carries, isFed })) files.add(plainPath(path, run.standing));
    }
  }
  return { files, carriers };
}

/** Whether the path names one of the files; a pattern, any that it matches. */
export function isFetched(path: string, standing: ShellDirectories, { files }: Fetched): boolean {
  if (path === "" || files.size === 0) return false;
  const plain = plainPath(path, standing);
  if (files.has(plain)) return true;
  return /[*?[]/.test(path) && [...files].some((file) => globMatches(plain, file));
}

function readsOne({ args, opened, standing }: Invocation, files: ReadonlySet<string>): boolean {
  const fetched = { files, carriers: NO_CARRIERS };
  const read = opened.flatMap(({ path, writes }) => (writes ? [] : [path]));
  const words = [...args.filter((word) => !word.startsWith("-")).flatMap(namedBy), ...read];
  return words.some((word) => isFetched(word, standing, fetched));
}

const NO_CARRIERS: ReadonlySet<string> = new Set();

/** Whether one of the programs that a function starts fetches something. */
function isFetching(body: ReadonlySet<Invocation> | undefined): boolean {
  return body !== undefined && [...body].some(({ program }) => FETCHERS.has(program));
}

/** Where a program puts what it fetches, or what comes to it from one that does. */
function keptBy(run: Invocation, { carries, isFed }: Source): readonly string[] {
  const isFetcher = FETCHERS.has(run.program);
  if (!isFetcher && !carries && !isFed) return [];
  const unpacked = carries ? run.args.map((arg) => arg.replace(/\.(?:gz|xz|bz2|zst)$/, "")) : [];
  return [...writtenBy(run), ...(isFetcher ? namedAfter(run) : []), ...(isUnpacker(run) ? unpacked : [])];
}

interface Source {
  /** Whether it reads a file that was fetched, and whether what it reads or prints comes from a program that fetches. */
  readonly carries: boolean;
  readonly isFed: boolean;
}

function isUnpacker(run: Invocation): boolean {
  return /^(?:gunzip|unxz|bunzip2|unzstd|gzip|xz|bzip2|zstd)$/.test(run.program);
}

const FOLDER = ["-P", "--directory-prefix", "--output-dir", "-d", "--dir"];

/** What is called as it is called at the other end; all that a program says where to keep. */
function namedAfter({ program, args }: Invocation): readonly string[] {
  const own = valuesOf(args, "-o", "--output", "--output-document", "--out");
  const isSame = program !== "curl" || has(args, "O", "--remote-name", "--remote-name-all");
  const last = isSame ? args.flatMap(lastPart) : [];
  const kept = [...own, ...last].filter((name) => name !== "-");
  return [...kept, ...valuesOf(args, ...FOLDER).flatMap((folder) => kept.map((name) => `${folder}/${name}`))];
}

/** The name at the end of an address. */
function lastPart(address: string): readonly string[] {
  if (address.startsWith("-")) return [];
  const [path = ""] = address.split(/[?#]/, 1);
  const name = path.slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf(":")) + 1);
  return name === "" ? [] : [name.includes(UNKNOWN) ? UNKNOWN : name];
}

const VALUED = words("-o -O +O -W -X -I -C -cp -classpath -d --rcfile --init-file");
const LOADED = ["-r", "--require", "--import", "-jar", "--rcfile", "--init-file"];

/** Files that a shell, an interpreter or `make` is given to run. */
export function filesRun(run: Invocation, isInterpreter: boolean): readonly string[] {
  if (run.spelled.includes("/")) return [run.spelled, ...given(run, isInterpreter)];
  return given(run, isInterpreter);
}

function given(run: Invocation, isInterpreter: boolean): readonly string[] {
  const { args, opened, program } = run;
  if (isOne(run, names("make gmake"))) return valuesOf(args, "-f", "--file", "--makefile");
  if (!isInterpreter) return [];
  const loaded = valuesOf(args, ...LOADED);
  if (args.some((arg) => /^-[a-zA-Z]{0,16}[ce]$|^-m$/.test(arg)) && !/^(?:\.|source)$/.test(program)) return loaded;
  const operands = operandsOf(args, VALUED).filter((operand) => !/^\+[a-zA-Z]/.test(operand));
  const script = operands[0] === "run" ? operands[1] : operands[0];
  return script === undefined ? [...loaded, ...opened.map(({ path }) => path)] : [...loaded, script];
}
