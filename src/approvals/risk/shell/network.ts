import { names } from "../names.ts";
import { FETCHERS, filesRun, isFetched } from "./fetched.ts";
import { type Invocation, isOne, operandsOf } from "./invocation.ts";
import type { ShellScript } from "./script.ts";
import { UNKNOWN } from "./word.ts";

/** Programs whose business is the network. */
export const NETWORK = names(
  "curl wget wget2 fetch aria2c axel lynx w3m links elinks http https xh httpie curlie ftp tftp lftp ncftp sftp scp rsync",
  "ssh sshpass mosh telnet nc ncat netcat socat nmap masscan zmap dig nslookup host drill ping ping6 traceroute tracepath mtr",
  "whois arp tcpdump tshark rclone s3cmd mail mailx mutt sendmail msmtp swaks wscat websocat grpcurl nats mosquitto_pub mosquitto_sub",
  "nc.traditional nc.openbsd ssh-copy-id ssh-keyscan ssh-add",
  "ngrok cloudflared chisel psql mysql mariadb mongo mongosh redis-cli clickhouse-client sqlplus smbclient rpcclient ldapsearch",
  "snmpwalk gh glab hub svn hg bzr cvs youtube-dl yt-dlp",
);

/** Programs that open a plain connection, over which a shell could be driven. */
const PIPES = names("nc ncat netcat nc.traditional nc.openbsd socat telnet openssl websocat");

const SHELLS = names(
  "sh bash dash ash rbash ksh mksh posh yash zsh fish csh tcsh busybox toybox source .",
  "eval git-shell",
);
export const INTERPRETERS = names(
  "python pypy ipython perl ruby irb jruby node nodejs deno php lua luajit tclsh wish expect rscript r julia",
  "groovy scala ghci runghc erl elixir iex osascript pwsh powershell guile racket clisp sbcl ocaml gdb lldb java jshell swift",
  "emacs ed ex pry octave matlab raku escript runhaskell kotlin clojure clj",
);

export function isShell(run: Invocation): boolean {
  return isOne(run, SHELLS);
}

function fedByFetcher({ fedBy }: Invocation, { fetched }: ShellScript): boolean {
  return fedBy.some((program) => FETCHERS.has(program) || fetched.carriers.has(program));
}

/** A shell whose whole text is not known, where a variable holds what was fetched. */
function runsKept(run: Invocation, script: ShellScript): boolean {
  const isTold = isShell(run) && [...run.args, ...run.input].some((text) => text.trim() === UNKNOWN);
  if (!isTold) return false;
  return script.invocations.some(
    (other) => other.program === "" && other.variables.length > 0 && fedByFetcher(other, script),
  );
}

/** A file that the script fetched before, by its path or by what is told to run it. */
function runsSaved(run: Invocation, { fetched }: ShellScript): boolean {
  const isInterpreter = isShell(run) || isOne(run, INTERPRETERS) || RUNNERS.has(run.program);
  return filesRun(run, isInterpreter).some((path) => isFetched(path, run.standing, fetched));
}

const RUNNERS = names("bun tsx ts-node deno");

/** A shell or interpreter whose program comes from the network: through a pipe, a substitution, or as its text. */
export function runsWhatIsFetched(run: Invocation, script: ShellScript): boolean {
  if (runsSaved(run, script)) return true;
  if (!fedByFetcher(run, script)) return runsKept(run, script);
  if (isShell(run)) {
    if (run.args.some((arg) => arg.includes(UNKNOWN) || arg.startsWith("/dev/"))) return true;
    // A text of its own leaves the input to the programs in it, each of which is asked about.
    return run.readsInput && !run.args.some((arg) => /^-[a-zA-Z]{0,16}c/.test(arg));
  }
  // What is fetched is itself the command line.
  if (run.program.includes(UNKNOWN) && !run.args.some((arg) => arg.includes(UNKNOWN))) return true;
  if (RUNNERS.has(run.program)) return operandsOf(run.args).some((arg) => /^(?:-|\/dev\/(?:stdin|fd\/.*))$/.test(arg));
  if (!isOne(run, INTERPRETERS)) return false;
  const inline = run.args.some((arg) => /^-[a-zA-Z]*[ceEr]$|^--(?:eval|execute)/.test(arg));
  if (inline) return run.args.some((arg) => arg === UNKNOWN);
  const [operand] = operandsOf(run.args);
  const isModule = run.args.some((arg) => arg === "-m");
  return !isModule && (operand === undefined || operand === "-" || operand.startsWith("/dev/"));
}

/** `nc -e`, `ncat --sh-exec`. */
const EXECUTES = /^(?:-e|-c|-[a-zA-Z]*[ec]|--exec|--sh-exec|--lua-exec)/;
/** `exec:sh`, `tcp:h:1,system:sh`. */
const SOCAT = /(?:^|,)(?:exec|system|shell):/i;
const BUILTIN_SOCKET = /^\/dev\/(?:tcp|udp)\//;
const REMOTE_CODE = /socket|fsockopen|tcpsocket|net\.connect|tcpclient|inet/i;
const SHELL_CODE = /\/bin\/(?:ba|da|z|k)?sh|dup2|pty\.spawn|powershell|cmd\.exe|child.process/i;

/** Ports of the machine itself are tried to see whether a service is up. */
const OWN_MACHINE = /^\/dev\/(?:tcp|udp)\/(?:localhost|127\.[0-9.]{1,11}|::1)\/[0-9]{1,5}$/;

function socketsOf({ args, opened }: Invocation): readonly string[] {
  return [...args, ...opened.map(({ path }) => path)].filter((path) => BUILTIN_SOCKET.test(path));
}

/** Whether the shell's own sockets are used, or named to a program that may use them. */
export function opensSocket(run: Invocation): boolean {
  return run.opened.some(({ path }) => BUILTIN_SOCKET.test(path)) || run.args.some((arg) => BUILTIN_SOCKET.test(arg));
}

/** A shell handed to whoever is at the other end of a connection, or the shell's own sockets. */
export function opensReverseShell(run: Invocation): boolean {
  const { program, args, fedBy } = run;
  if (opensSocket(run)) {
    return isShell(run) || (!isOne(run, PRINTERS) && !socketsOf(run).every((path) => OWN_MACHINE.test(path)));
  }
  if (/^(?:nc|ncat|netcat)(?:\.|$)/.test(program) && args.some((arg) => EXECUTES.test(arg))) return true;
  if (program === "socat" && args.some((arg) => SOCAT.test(arg))) return true;
  const connects = PIPES.has(program) && (program !== "openssl" || args.includes("s_client"));
  if (connects && fedBy.some((feeder) => SHELLS.has(feeder))) return true;
  const code = isOne(run, INTERPRETERS) ? args.join("\n") : "";
  return REMOTE_CODE.test(code) && SHELL_CODE.test(code);
}

/** Programs that only show their arguments. */
export const PRINTERS = names("echo printf grep egrep fgrep rg ag ack sed awk gawk : true false test [");

const METADATA_NAMES = names(
  "metadata.google.internal metadata.goog metadata.azure.com metadata.tencentyun.com",
  "instance-data.ec2.internal",
);
const METADATA_ADDRESSES = new Set([0xa9fea9fe, 0xa9feaa02, 0x646464c8, 0xa9fe0017]);
const METADATA_IPV6 = /^(?:fd00:ec2:+254|::ffff:(?:169\.254\.169\.254|a9fe:a9fe)|fe80::a9fe:a9fe|fd20:ce::254)$/i;
const METADATA_TEXT = /169\.254\.169\.254|169\.254\.170\.2\b|metadata\.google\.internal|100\.100\.100\.200/;

/** The address at which clouds hand out a machine's credentials, in whatever spelling. */
export function reachesMetadata(run: Invocation): boolean {
  if (isOne(run, PRINTERS)) return false;
  const targets = [...run.args, ...run.opened.map(({ path }) => path.replace(BUILTIN_SOCKET, ""))];
  const takesHosts = NETWORK.has(run.program);
  if (targets.some((arg) => hostsOf(arg, takesHosts).some(isMetadata))) return true;
  return isOne(run, INTERPRETERS) && run.args.some((arg) => METADATA_TEXT.test(arg));
}

/** The host, and each of several that stand side by side: `--resolve name:80:address`, `{a,b}`; full-width digits are digits. */
function hostsOf(arg: string, takesHosts: boolean): readonly string[] {
  const plain = arg.normalize("NFKC");
  const url = plain.replace(/^(https?|ftp):\/{0,3}(?=[^/])/i, "$1://");
  const host = hostOf(url, takesHosts);
  if (!takesHosts) return [host];
  const [authority = ""] = url.slice(url.indexOf("://") === -1 ? 0 : url.indexOf("://") + 3).split(/[/?#\s]/, 1);
  return [host, ...authority.split(/[,:{}@%=]/, HOSTS_MAX)];
}

const HOSTS_MAX = 16;

/** The host of a URL, of `user@host`, of `--option=URL`; plain words only where they are hosts. */
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
  if (
    METADATA_NAMES.has(plain) ||
    METADATA_IPV6.test(plain) ||
    /^169\.254\.169\.254\.(?:nip|sslip|xip)\.io$/.test(plain)
  )
    return true;
  const address = ipv4Of(plain);
  return address !== undefined && METADATA_ADDRESSES.has(address);
}

/** As `inet_aton` reads it: one to four parts, decimal, octal or hexadecimal. */
function ipv4Of(host: string): number | undefined {
  const parts = host.split(".", 5);
  if (parts.length > 4 || !parts.every((part) => /^(?:0x[0-9a-f]{1,16}|[0-9]{1,20})$/.test(part))) return undefined;
  const numbers = parts.map((part) => (/^0[0-9]/.test(part) ? Number.parseInt(part, 8) : Number(part)));
  const last = numbers.pop() ?? 0;
  const high = numbers.reduce((sum, part) => sum * 256 + part, 0);
  return (high * 256 ** (4 - numbers.length) + last) % 2 ** 32;
}
