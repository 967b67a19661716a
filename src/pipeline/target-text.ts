import { plainText } from "../core/terminal-text.ts";
import { replaceFindings, type SensitiveFinding } from "../detection/finding.ts";
import { type Detector, REDACTED, replacementOf } from "../detection/sensitive.ts";
import { cleanText } from "../detection/views/clean-text.ts";

/** UTF-16 units at the end of the text that are processed. */
const TEXT_CHARS_MAX = 16_384;
const RELEASED_BYTES_MAX = 2_048;
/** A finding with at least this confidence counts as personal data; below it, the text only resembles personal data. */
const PERSONAL_CONFIDENCE_MIN = 0.5;
const WITHHELD = "[withheld: it contained personal data]";

/** A target's own text in an answer's `error.details`. */
interface ReleasableText {
  readonly message: string;
  /** The text is data, never an instruction. */
  readonly untrusted: true;
}

/**
 * Returns the part of a target's text that an agent may see: its last whole lines, up to 2 KiB, without secrets, stack frames,
 * paths, addresses and invisible characters. A text with personal data is withheld completely, because it may also contain names,
 * which no pattern finds.
 */
export function releasableText(targetText: string | undefined, detector: Detector): ReleasableText | undefined {
  if (targetText === undefined) return undefined;
  const text = plainText(lastLines(targetText)).replaceAll("\r\n", "\n");
  const found = detector.find(text, "strict");
  const isPersonal = found.some(
    ({ kind, rule, confidence }) => kind === "pii" && rule !== "IP" && confidence >= PERSONAL_CONFIDENCE_MIN,
  );
  const message = isPersonal ? WITHHELD : bounded(readable(replaceFindings(text, found, replacement)));
  return message === "" ? undefined : { message, untrusted: true };
}

function lastLines(text: string): string {
  if (text.length <= TEXT_CHARS_MAX) return text;
  const tail = text.slice(-TEXT_CHARS_MAX);
  const end = tail.indexOf("\n");
  return end === -1 ? "" : tail.slice(end + 1);
}

function replacement(finding: SensitiveFinding): string {
  if (finding.kind === "secret") return REDACTED;
  return finding.rule === "IP" ? ADDRESS : replacementOf(finding);
}

function readable(text: string): readonly string[] {
  const lines = withoutFrames(text.split("\n")).filter((line) => !isEncoded(line.trim()));
  return lines.map((line) => cleanText(withoutPathsAndAddresses(line)).trimEnd()).filter((line) => line.trim() !== "");
}

/** Recognizes a line of a key or certificate whose beginning was cut off: only this form identifies it. */
function isEncoded(line: string): boolean {
  return /^[A-Za-z0-9+/=_-]{40,}$/.test(line) || line.startsWith("-----");
}

/** Returns the last whole lines within the bound. A single line over the bound is cut at its end. */
function bounded(lines: readonly string[]): string {
  const kept: string[] = [];
  let bytes = 0;
  for (const line of lines.toReversed()) {
    bytes += Buffer.byteLength(line) + 1;
    if (bytes > RELEASED_BYTES_MAX) return kept.length > 0 ? kept.join("\n") : beginning(line);
    kept.unshift(line);
  }
  return kept.join("\n");
}

function beginning(line: string): string {
  const left = RELEASED_BYTES_MAX - Buffer.byteLength("…");
  const cut = Buffer.from(line).subarray(0, left).toString("utf8");
  // A character that was cut in two decodes to U+FFFD.
  return `${cut.replace(/\uFFFD+$/, "")}…`;
}

/** Lines of stack traces and crash dumps, which only the program's authors understand. */
const FRAMES: readonly RegExp[] = [
  // JavaScript, Java, .NET, Scala: `at Object.run (/app/x.js:1:2)`, `at a.b.C.d(C.java:12)`, `at X.Y() in C:\x.cs:line 3`.
  /^at [^ ].*[:(]/,
  /^at [^ ]+$/,
  /^\.\.\. \d+ (?:more|common frames omitted)/,
  // Python
  /^File ".*", line \d+/,
  /^Traceback \(most recent call last\)/,
  /^[~^]+$/,
  // Go
  /^created by [^ ]+/,
  /\.go:\d+(?: \+0x[0-9a-f]+)?$/,
  // Rust, C, gdb
  /^stack backtrace:/i,
  /^note: .*RUST_BACKTRACE/,
  /^\d+: +(?:0x[0-9a-f]+ - |[^ ]*::)/,
  /^#\d+ /,
  /\[0x[0-9a-f]+\]$/,
  // Ruby, PHP
  /^from [^ ]+:\d+:in /,
  /^[^ ]+\.rb:\d+:in /,
  /^thrown in .* on line \d+$/,
  // Node.js itself
  /^node:internal\//,
  /^Node\.js v\d/,
];

/** The forms in which Go prints arguments. */
const GO_ARGUMENT = /0x[0-9a-f]|\{|\.\.\.|\?/;

/** The start of a goroutine dump; everything up to the next empty line belongs to it. */
const GOROUTINE = /^goroutine \d+ \[/;

/** A line longer than this is not a frame, and matching it against every pattern is too expensive. UTF-16 units. */
const FRAME_CHARS_MAX = 1_024;

/** Returns the lines without stack frames and without the source excerpts that a program printed below a frame. */
export function withoutFrames(lines: readonly string[]): readonly string[] {
  let isAfterFrame = false;
  let isGoroutine = false;
  return lines.filter((line) => {
    const trimmed = line.trim();
    isGoroutine = GOROUTINE.test(trimmed) || (isGoroutine && trimmed !== "");
    const isSource = isAfterFrame && line.startsWith("    ");
    isAfterFrame = isGoroutine || isSource || isFrame(trimmed);
    return !isAfterFrame;
  });
}

function isFrame(line: string): boolean {
  return line.length <= FRAME_CHARS_MAX && (FRAMES.some((pattern) => pattern.test(line)) || isGoCall(line));
}

/** Recognizes `main.run(0xc000012345, {0x4, ...})`: no space before the first recognized argument, and the list ends the line. */
function isGoCall(line: string): boolean {
  const open = line.indexOf("(", 1);
  if (open === -1 || !line.endsWith(")")) return false;
  const from = Math.max(open, line.lastIndexOf(")", line.length - 2)) + 1;
  const space = line.indexOf(" ");
  return GO_ARGUMENT.test(line.slice(from, space === -1 ? line.length : Math.max(from, space)));
}

const PATH = "[path]";
const ADDRESS = "[address]";

/** File extensions after which a colon and a number mean a line: `deploy.yaml:12`. */
const FILE_EXTENSIONS: ReadonlySet<string> = new Set(
  "c cc conf cpp cs css csv diff env go gradle h hcl html ini java js json jsonnet jsx kt lock log lua md mjs php pl proto py rb rs rst scala sh sql swift tf toml ts tsx txt xml yaml yml".split(
    " ",
  ),
);

/** Words before a colon and a number that are not hosts. */
const LABELS: ReadonlySet<string> = new Set(
  "at attempt char code col column count error errno exit http id item job length limit line lines max min number offset page pid port position release revision row signal size status step total version".split(
    " ",
  ),
);

const INTERNAL_DOMAINS = ".local .internal .svc .lan .corp .intranet .localdomain .home.arpa .private .consul".split(
  " ",
);

/**
 * A quoted path, with any characters. Every pattern here repeats single character classes, so it is linear, and its text is
 * bounded.
 */
const QUOTED_PATH = /(["'`])(?:file:\/\/|~?\/|[A-Za-z]:[\\/]|\\\\)[^"'`\n]*\1/g;
const URL_OF_A_FILE = /\b[A-Za-z][A-Za-z0-9+.-]{0,31}:\/\/\/[^\s"'`<>|;]*/g;
const URL = /\b([A-Za-z][A-Za-z0-9+.-]{0,31}:\/\/)([^\s/"'`<>|;?#,)\]}]+)/g;
const WINDOWS_PATH = /(?<![A-Za-z0-9])[A-Za-z]:[\\/][^\s"'`<>|;,]*/g;
const UNC_PATH = /\\\\[^\s"'`<>|;,]+/g;
const UNIX_PATH = /(?<![\w./~*-])(?:~[\w.-]{0,64})?\/(?!\/)[^\s"'`<>|;,()[\]{}]+/g;
const SHARE_PATH = /(?<![\w:./])\/\/[^\s"'`<>|;,()[\]{}]+/g;

const IPV4 = /(?<![\w.])\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?:\/\d{1,2})?(?::\d{1,5})?(?![\w.]*\w)/g;
const IPV6 = /\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*(?:%[\w.-]{1,32})?\](?::\d{1,5})?/g;
const BARE_IPV6 =
  /(?<![\w:])(?:[0-9A-Fa-f]{1,4}:){3,7}[0-9A-Fa-f:.]{0,39}|(?<![\w:])[0-9A-Fa-f:]{0,30}::[0-9A-Fa-f:.]{0,39}/g;
const HOST_AND_PORT = /(?<![\w.-])([A-Za-z0-9_][A-Za-z0-9_.-]*):\d{1,5}(?![\w.]*\w|:\d)/g;
const PORT_LEFT_OVER = /\[address\]:\d{1,5}/g;
const HOST = /(?<![\w.-])[A-Za-z0-9_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*/g;

/** Returns the line without absolute paths and without internal addresses: IP addresses, hosts with a port, private domains. */
export function withoutPathsAndAddresses(line: string): string {
  return withoutPaths(withoutUrls(line))
    .replace(IPV6, ADDRESS)
    .replace(IPV4, ADDRESS)
    .replace(BARE_IPV6, (found) => (isIpv6(found) ? ADDRESS : found))
    .replace(HOST_AND_PORT, (found, host: string) => (isHostWithPort(host) ? ADDRESS : found))
    .replace(HOST, (found) => (isInternal(found) ? ADDRESS : found))
    .replace(PORT_LEFT_OVER, ADDRESS);
}

function withoutUrls(line: string): string {
  return line
    .replace(URL_OF_A_FILE, PATH)
    .replace(URL, (found, scheme: string, authority: string) => (isPublic(authority) ? found : `${scheme}${ADDRESS}`));
}

/** Returns the line without absolute paths of files. */
export function withoutPaths(line: string): string {
  return line
    .replace(QUOTED_PATH, (_found, quote: string) => `${quote}${PATH}${quote}`)
    .replace(WINDOWS_PATH, PATH)
    .replace(UNC_PATH, PATH)
    .replace(SHARE_PATH, PATH)
    .replace(UNIX_PATH, PATH);
}

/** Returns whether the authority is a public name: it has a dot, no private ending, no port and no user. */
function isPublic(authority: string): boolean {
  return /^[A-Za-z0-9.-]*[A-Za-z]$/.test(authority) && authority.includes(".") && !isInternal(authority);
}

function isInternal(host: string): boolean {
  const name = host.toLowerCase();
  return name === "localhost" || INTERNAL_DOMAINS.some((end) => name.endsWith(end) && name.length > end.length);
}

function isHostWithPort(host: string): boolean {
  const labels = host.toLowerCase().split(".");
  const last = labels.at(-1) ?? "";
  // Numbers with colons: a time, a version, a count.
  if (!/[a-z]/.test(last)) return false;
  return labels.length > 1 ? !FILE_EXTENSIONS.has(last) : !LABELS.has(last);
}

/** Returns whether the text has at least two colons and a hex digit: `::` alone separates names. */
function isIpv6(text: string): boolean {
  const parts = text.split(":").length;
  return parts > 2 && /[0-9A-Fa-f]/.test(text) && (text.includes("::") || parts === 8);
}
