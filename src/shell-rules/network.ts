import {
  type Call,
  has,
  isOne,
  names,
  operandsOf,
  pathsIn,
  possibleValues,
  type ShellDirectories,
  valuesOf,
} from "./call.ts";
import { writtenBy } from "./effects.ts";
import { globMatches, plainPath } from "./paths.ts";
import type { ShellScript } from "./script.ts";
import { UNKNOWN } from "./words.ts";

/** Programs that print or save data from the network. */
const FETCHING = `curl wget wget2 fetch aria2c axel lynx w3m links elinks http https xh curlie nc ncat netcat socat
  telnet ftp tftp ssh scp dig nslookup host drill websocat rclone s3cmd lftp sftp nc.traditional nc.openbsd
  mosquitto_sub get post lwp-request lwp-download lwp-mirror lwp-dump`;
const FETCHERS = names(`${FETCHING} gsutil`);

export const NETWORK = names(`${FETCHING} httpie ncftp rsync sshpass mosh nmap masscan zmap ping ping6 traceroute
  tracepath mtr whois arp tcpdump tshark mail mailx mutt sendmail msmtp swaks wscat grpcurl nats mosquitto_pub
  ssh-copy-id ssh-keyscan ssh-add ngrok cloudflared chisel psql mysql mariadb mongo mongosh redis-cli clickhouse-client
  sqlplus smbclient rpcclient ldapsearch snmpwalk gh glab hub svn hg bzr cvs youtube-dl yt-dlp`);

/** Programs that open a plain connection, over which a shell could be controlled. */
const CONNECTIONS = names("nc ncat netcat nc.traditional nc.openbsd socat telnet openssl websocat");

const SHELLS = names(`sh bash dash ash rbash ksh mksh posh yash zsh fish csh tcsh busybox toybox source . eval
  git-shell`);

export const INTERPRETERS = names(`python pypy ipython perl ruby irb jruby node nodejs deno php lua luajit tclsh wish
  expect rscript r julia groovy scala ghci runghc erl elixir iex osascript pwsh powershell guile racket clisp sbcl ocaml
  gdb lldb java jshell swift emacs ed ex pry octave matlab raku escript runhaskell kotlin clojure clj`);

/** Programs that run a file like an interpreter, among other things. */
const RUNNERS = names("bun tsx ts-node deno");

/** Programs that only print or search their arguments. */
export const PRINTERS = names("echo printf grep egrep fgrep rg ag ack sed awk gawk : true false test [");

export function isShell(call: Call): boolean {
  return isOne(call, SHELLS);
}

/** Files and programs of a script that hold data from the network. */
interface Fetched {
  /** Files that are downloaded, or made from downloaded files. */
  readonly files: ReadonlySet<string>;
  /** Programs that read such files. */
  readonly carriers: ReadonlySet<string>;
}

const ROUNDS_MAX = 4;
const fetchedIn = new WeakMap<ShellScript, Fetched>();

function fetchedBy(script: ShellScript): Fetched {
  const known = fetchedIn.get(script);
  if (known !== undefined) return known;
  const files = new Set<string>();
  const carriers = new Set<string>();
  const isFetching = script.calls.some(({ program }) => FETCHERS.has(program));
  for (let round = 0, before = -1; isFetching && round < ROUNDS_MAX && files.size > before; round += 1) {
    before = files.size;
    for (const call of script.calls) {
      const carries = readsFetched(call, files);
      if (carries) carriers.add(call.family);
      const isFed = call.fedBy.some((program) => FETCHERS.has(program)) || startsFetcher(call, script);
      for (const path of savedBy(call, carries, isFed)) files.add(plainPath(path, call.directories));
    }
  }
  const made = { files, carriers };
  fetchedIn.set(script, made);
  return made;
}

function startsFetcher({ spelled }: Call, { bodies }: ShellScript): boolean {
  return [...(bodies.get(spelled) ?? [])].some(({ program }) => FETCHERS.has(program));
}

function readsFetched({ args, opened, directories }: Call, files: ReadonlySet<string>): boolean {
  const read = opened.flatMap(({ path, writes }) => (writes ? [] : [path]));
  const named = args.filter((word) => !word.startsWith("-")).flatMap(pathsIn);
  return [...named, ...read].some((path) => isFetched(path, directories, files));
}

/** Returns whether a path, or a file that it matches as a pattern, holds fetched data. */
function isFetched(path: string, directories: ShellDirectories, files: ReadonlySet<string>): boolean {
  if (path === "" || files.size === 0) return false;
  const plain = plainPath(path, directories);
  return files.has(plain) || (/[*?[]/.test(path) && [...files].some((file) => globMatches(plain, file)));
}

/** Returns the paths to which a call saves fetched data: its own, or data that a fetching program passes to it. */
function savedBy(call: Call, carries: boolean, isFed: boolean): readonly string[] {
  const isFetcher = FETCHERS.has(call.program);
  if (!isFetcher && !carries && !isFed) return [];
  const isUnpacker = /^(?:gunzip|unxz|bunzip2|unzstd|gzip|xz|bzip2|zstd)$/.test(call.program);
  const unpacked = isUnpacker && carries ? call.args.map((arg) => arg.replace(/\.(?:gz|xz|bz2|zst)$/, "")) : [];
  return [...writtenBy(call), ...(isFetcher ? namedAfter(call) : []), ...unpacked];
}

/** Returns the files that a download creates: named by an option, or by the end of the address. */
function namedAfter({ program, args }: Call): readonly string[] {
  const own = valuesOf(args, "-o --output --output-document --out");
  const isSame = program !== "curl" || has(args, "-O --remote-name --remote-name-all");
  const kept = [...own, ...(isSame ? args.flatMap(lastPart) : [])].filter((name) => name !== "-");
  const folders = valuesOf(args, "-P --directory-prefix --output-dir -d --dir");
  return [...kept, ...folders.flatMap((folder) => kept.map((name) => `${folder}/${name}`))];
}

function lastPart(address: string): readonly string[] {
  const [path = ""] = address.split(/[?#]/, 1);
  const name = path.slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf(":")) + 1);
  if (address.startsWith("-") || name === "") return [];
  return [name.includes(UNKNOWN) ? UNKNOWN : name];
}

const RUN_VALUED = "-o -O +O -W -X -I -C -cp -classpath -d --rcfile --init-file";
const LOADED = "-r --require --import -jar --rcfile --init-file";

/** Returns the files that a call runs: itself by its path, and those that a shell, an interpreter or `make` is given. */
function filesRunBy(call: Call): readonly string[] {
  const { args, opened, program, spelled } = call;
  const own = spelled.includes("/") ? [spelled] : [];
  if (program === "make" || program === "gmake") return [...own, ...valuesOf(args, "-f --file --makefile")];
  if (!isShell(call) && !isOne(call, INTERPRETERS) && !RUNNERS.has(program)) return own;
  const loaded = [...own, ...valuesOf(args, LOADED)];
  if (args.some((arg) => /^-[a-zA-Z]{0,16}[ce]$|^-m$/.test(arg)) && !/^(?:\.|source)$/.test(program)) return loaded;
  const operands = operandsOf(args, RUN_VALUED).filter((operand) => !/^\+[a-zA-Z]/.test(operand));
  const script = operands[0] === "run" ? operands[1] : operands[0];
  return script === undefined ? [...loaded, ...opened.map(({ path }) => path)] : [...loaded, script];
}

/** Returns whether a shell or an interpreter gets its program from the network: a pipe, a substitution, a fetched file. */
export function runsWhatIsFetched(call: Call, script: ShellScript): boolean {
  const { files, carriers } = fetchedBy(script);
  const { args, program, readsInput } = call;
  if (filesRunBy(call).some((path) => isFetched(path, call.directories, files))) return true;
  const isFed = ({ fedBy }: Call) => fedBy.some((feeder) => FETCHERS.has(feeder) || carriers.has(feeder));
  if (!isFed(call)) {
    // The script is the value of a variable, and a variable holds fetched data.
    const isValue = isShell(call) && [...args, ...call.input].some((text) => text.trim() === UNKNOWN);
    return isValue && script.calls.some((other) => other.program === "" && other.variables.length > 0 && isFed(other));
  }
  if (isShell(call)) {
    if (args.some((arg) => arg.includes(UNKNOWN) || arg.startsWith("/dev/"))) return true;
    // With `-c`, the programs in the script read the input.
    return readsInput && !args.some((arg) => /^-[a-zA-Z]{0,16}c/.test(arg));
  }
  if (program.includes(UNKNOWN) && !args.some((arg) => arg.includes(UNKNOWN))) return true;
  if (RUNNERS.has(program)) return operandsOf(args).some((arg) => /^(?:-|\/dev\/(?:stdin|fd\/.*))$/.test(arg));
  if (!isOne(call, INTERPRETERS)) return false;
  if (args.some((arg) => /^-[a-zA-Z]*[ceEr]$|^--(?:eval|execute)/.test(arg))) return args.includes(UNKNOWN);
  const [operand] = operandsOf(args);
  return !args.includes("-m") && (operand === undefined || operand === "-" || operand.startsWith("/dev/"));
}

const BUILTIN_SOCKET = /^\/dev\/(?:tcp|udp)\//;
/** Matches ports of the same machine, which scripts open to test whether a service is running. */
const OWN_MACHINE = /^\/dev\/(?:tcp|udp)\/(?:localhost|127\.[0-9.]{1,11}|::1)\/[0-9]{1,5}$/;
const SOCKET_CODE = /socket|fsockopen|tcpsocket|net\.connect|tcpclient|inet/i;
const SHELL_CODE = /\/bin\/(?:ba|da|z|k)?sh|dup2|pty\.spawn|powershell|cmd\.exe|child.process/i;

function socketsOf(call: Call): readonly string[] {
  const { args, opened } = call;
  return [...args, ...opened.map(({ path }) => path), ...possibleValues(call)].filter((path) =>
    BUILTIN_SOCKET.test(path),
  );
}

/** Returns whether a call opens a socket of the shell (`/dev/tcp/…`), or passes its path to a program. */
export function opensSocket(call: Call): boolean {
  return socketsOf(call).length > 0;
}

/** Returns whether a call connects a shell to a network connection. */
export function opensReverseShell(call: Call): boolean {
  const { program, args, fedBy } = call;
  const sockets = socketsOf(call);
  if (sockets.length > 0)
    return isShell(call) || (!isOne(call, PRINTERS) && !sockets.every((path) => OWN_MACHINE.test(path)));
  if (
    /^(?:nc|ncat|netcat)(?:\.|$)/.test(program) &&
    args.some((arg) => /^(?:-[a-zA-Z]*[ec]|--(?:lua-|sh-)?exec)/.test(arg))
  )
    return true;
  if (program === "socat" && args.some((arg) => /(?:^|,)(?:exec|system|shell):/i.test(arg))) return true;
  const connects = CONNECTIONS.has(program) && (program !== "openssl" || args.includes("s_client"));
  if (connects && fedBy.some((feeder) => SHELLS.has(feeder))) return true;
  const code = isOne(call, INTERPRETERS) ? args.join("\n") : "";
  return SOCKET_CODE.test(code) && SHELL_CODE.test(code);
}

const METADATA_NAMES = names(`metadata.google.internal metadata.goog metadata.azure.com metadata.tencentyun.com
  instance-data.ec2.internal`);
const METADATA_ADDRESSES = new Set([0xa9fea9fe, 0xa9feaa02, 0x646464c8, 0xa9fe0017]);
const METADATA_IPV6 = /^(?:fd00:ec2:+254|::ffff:(?:169\.254\.169\.254|a9fe:a9fe)|fe80::a9fe:a9fe|fd20:ce::254)$/i;
const METADATA_TEXT = /169\.254\.169\.254|169\.254\.170\.2\b|metadata\.google\.internal|100\.100\.100\.200/;
const HOSTS_MAX = 16;

/** Returns whether a call contacts a cloud's metadata service, which returns credentials, at any spelling of its address. */
export function contactsMetadata(call: Call): boolean {
  if (isOne(call, PRINTERS)) return false;
  const targets = [...call.args, ...call.opened.map(({ path }) => path.replace(BUILTIN_SOCKET, ""))];
  const takesHosts = NETWORK.has(call.program);
  if (targets.some((arg) => hostsOf(arg, takesHosts).some(isMetadata))) return true;
  return isOne(call, INTERPRETERS) && call.args.some((arg) => METADATA_TEXT.test(arg));
}

/** Returns the hosts in an argument, also when several are joined: `--resolve name:80:address`, `{a,b}`. */
function hostsOf(arg: string, takesHosts: boolean): readonly string[] {
  const url = arg.normalize("NFKC").replace(/^(https?|ftp):\/{0,3}(?=[^/])/i, "$1://");
  const host = hostOf(url, takesHosts);
  if (!takesHosts) return [host];
  const [authority = ""] = url.slice(url.indexOf("://") === -1 ? 0 : url.indexOf("://") + 3).split(/[/?#\s]/, 1);
  return [host, ...authority.split(/[,:{}@%=]/, HOSTS_MAX)];
}

/** Returns the host of a URL, of `user@host` or `--option=URL`. A plain word is a host only for programs that take hosts. */
function hostOf(arg: string, takesHosts: boolean): string {
  const value = /^--?[A-Za-z-]+=/.test(arg) ? arg.slice(arg.indexOf("=") + 1) : arg;
  const scheme = value.indexOf("://");
  if (scheme === -1 && !takesHosts && !/^[0-9a-fA-Fx.:]+(?:\/|$)/.test(value)) return "";
  const [authority = ""] = value.slice(scheme === -1 ? 0 : scheme + 3).split(/[/?#\s]/, 1);
  const host = authority.slice(authority.lastIndexOf("@") + 1);
  if (host.startsWith("[")) return host.slice(1, Math.max(host.indexOf("]"), 1));
  return host.split(":").length > 2 ? host : (host.split(":", 1)[0] ?? "");
}

function isMetadata(host: string): boolean {
  const plain = host.toLowerCase().replace(/\.$/, "");
  const isNamed = METADATA_NAMES.has(plain) || /^169\.254\.169\.254\.(?:nip|sslip|xip)\.io$/.test(plain);
  if (isNamed || METADATA_IPV6.test(plain)) return true;
  const address = ipv4Of(plain);
  return address !== undefined && METADATA_ADDRESSES.has(address);
}

/** Reads an address as `inet_aton` does: one to four parts, decimal, octal or hexadecimal. */
function ipv4Of(host: string): number | undefined {
  const parts = host.split(".", 5);
  if (parts.length > 4 || !parts.every((part) => /^(?:0x[0-9a-f]{1,16}|[0-9]{1,20})$/.test(part))) return undefined;
  const numbers = parts.map((part) => (/^0[0-9]/.test(part) ? Number.parseInt(part, 8) : Number(part)));
  const last = numbers.pop() ?? 0;
  const high = numbers.reduce((sum, part) => sum * 256 + part, 0);
  return (high * 256 ** (4 - numbers.length) + last) % 2 ** 32;
}
