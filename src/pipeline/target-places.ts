const PATH = "[path]";
export const ADDRESS = "[address]";

/** Ends of names that are files, where a number after a colon is a line: `deploy.yaml:12`. */
const FILE_ENDINGS: ReadonlySet<string> = new Set(
  "c cc conf cpp cs css csv diff env go gradle h hcl html ini java js json jsonnet jsx kt lock log lua md mjs php pl proto py rb rs rst scala sh sql swift tf toml ts tsx txt xml yaml yml".split(
    " ",
  ),
);

/** What stands before a colon and a number without being a host. */
const LABELS: ReadonlySet<string> = new Set(
  "at attempt char code col column count error errno exit http id item job length limit line lines max min number offset page pid port position release revision row signal size status step total version".split(
    " ",
  ),
);

const INTERNAL_ENDINGS = [
  ...[".local", ".internal", ".svc", ".lan", ".corp", ".intranet", ".localdomain", ".home.arpa", ".private", ".consul"],
];

/** Quoted, with whatever stands in it. Each pattern here is runs of one class: linear, and its text is bounded. */
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

/** Without absolute paths, and without addresses that only mean something inside: IP addresses, hosts with a port, private domains. */
export function withoutPlaces(line: string): string {
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

function withoutPaths(line: string): string {
  return line
    .replace(QUOTED_PATH, (_found, quote: string) => `${quote}${PATH}${quote}`)
    .replace(WINDOWS_PATH, PATH)
    .replace(UNC_PATH, PATH)
    .replace(SHARE_PATH, PATH)
    .replace(UNIX_PATH, PATH);
}

/** A name with a dot that is nobody's private one, without port or user. */
function isPublic(authority: string): boolean {
  return (
    /^[A-Za-z0-9.-]+$/.test(authority) &&
    /[A-Za-z]$/.test(authority) &&
    authority.includes(".") &&
    !isInternal(authority)
  );
}

function isInternal(host: string): boolean {
  const name = host.toLowerCase();
  return (
    name === "localhost" || INTERNAL_ENDINGS.some((ending) => name.endsWith(ending) && name.length > ending.length)
  );
}

function isHostWithPort(host: string): boolean {
  const labels = host.toLowerCase().split(".");
  const last = labels.at(-1) ?? "";
  // A time, a version, a count.
  if (!/[a-z]/.test(last)) return false;
  return labels.length > 1 ? !FILE_ENDINGS.has(last) : !LABELS.has(last);
}

/** At least two colons, and a figure or letter: `::` alone separates names. */
function isIpv6(text: string): boolean {
  return (
    text.split(":").length > 2 && /[0-9A-Fa-f]/.test(text) && (text.includes("::") || text.split(":").length === 8)
  );
}
