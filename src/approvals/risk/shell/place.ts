import { words } from "../names.ts";
import { HOME, INSIDE, UNKNOWN } from "./word.ts";

/** Where a script stands and lives. Absolute paths, or `undefined` when that is not known. */
export interface ShellDirectories {
  readonly cwd: string | undefined;
  readonly home: string | undefined;
}

/** Directories without which the machine, or whoever works on it, is lost. */
const SYSTEM = words(
  "/ /bin /boot /dev /etc /home /lib /lib32 /lib64 /media /mnt /opt /proc /root /run /sbin /srv /sys /usr /var",
  "/Users /System /Library /Applications /usr/bin /usr/lib /usr/lib64 /usr/local /usr/sbin /usr/share",
  "/usr/local/bin /usr/local/lib /var/lib /var/log /var/spool /home/?* /Users/?* /etc/ssh /etc/pam.d /private",
  "/private/etc",
).map((path) => path.split("/").filter((part) => part !== ""));

/** The parts of a path from the root, `.` and `..` taken out; `undefined` when it is not known where it is. */
export function partsOf(path: string, { cwd, home }: ShellDirectories): readonly string[] | undefined {
  const absolute = absoluteOf(path, cwd, home);
  if (absolute === undefined) return undefined;
  const parts: string[] = [];
  for (const part of absolute.split("/")) {
    if (part === "" || part === ".") continue;
    if (part === "..") parts.pop();
    else parts.push(part);
    if (parts.length === 3 && /^proc\/(?:thread-)?self\/root$/.test(parts.join("/"))) parts.length = 0;
  }
  return parts;
}

function absoluteOf(path: string, cwd: string | undefined, home: string | undefined): string | undefined {
  if (path.startsWith("/")) return path;
  if (path.startsWith(HOME)) return home === undefined ? undefined : `${home}/${path.slice(1)}`;
  if (path.startsWith(UNKNOWN) || cwd === undefined) return undefined;
  return `${cwd}/${path}`;
}

/**
 * Whether removing or opening up all of this is a catastrophe: the root, a system directory, a home, all that such a directory
 * holds, or what stands above the place that the script was given.
 */
export function isCatastrophic(path: string, standing: ShellDirectories): boolean {
  if (isHome(path)) return true;
  const parts = partsOf(path, standing);
  if (parts === undefined) return false;
  if (SYSTEM.some((place) => matches(parts, place))) return true;
  const all = parts.at(-1);
  const above = all !== undefined && isAnything(all) ? parts.slice(0, -1) : parts;
  if (above !== parts && (SYSTEM.some((place) => matches(above, place)) || isHomeOf(above, standing))) {
    return !isWorkspaceGlob(path, above, standing);
  }
  return isAbove(above, standing);
}

function isHome(path: string): boolean {
  const rest = path.startsWith(HOME) ? path.slice(1) : undefined;
  if (rest !== undefined) return rest.split("/").every((part) => part === "" || part === "." || isAnything(part));
  // Another user's home: `~name`, `~root/*`.
  const [name = "", ...below] = path.split("/");
  return /^~[A-Za-z0-9_.+-]*$/.test(name) && name !== "~" && below.every((part) => part === "" || isAnything(part));
}

function homeOf({ home }: ShellDirectories): readonly string[] | undefined {
  return home === undefined ? undefined : partsOf(home, { cwd: undefined, home: undefined });
}

function isHomeOf(parts: readonly string[], standing: ShellDirectories): boolean {
  const own = homeOf(standing);
  return own !== undefined && own.length > 0 && matches(parts, own);
}

/** `rm -rf *` where the script works: bad enough to ask, and what a build does. */
function isWorkspaceGlob(path: string, above: readonly string[], standing: ShellDirectories): boolean {
  return !path.startsWith("/") && isHomeOf(above, standing);
}

function isAbove(parts: readonly string[], standing: ShellDirectories): boolean {
  const own = homeOf(standing);
  if (own === undefined || parts.length >= own.length) return false;
  return matches(parts, own.slice(0, parts.length));
}

/** Whether the path, whose parts may be globs, can mean that place, whose parts may be globs too. */
function matches(parts: readonly string[], place: readonly string[]): boolean {
  return (
    parts.length === place.length &&
    place.every((part, index) => {
      const own = parts[index] ?? "";
      return part === "?*" ? own !== "" : globMatches(own, part);
    })
  );
}

/** A part that means everything in a directory: `*`, `.*`, `?*`, `[a-z]*`. */
function isAnything(part: string): boolean {
  return part.includes("*") && !/[A-Za-z0-9_\0-]/.test(withoutBrackets(part));
}

/** A bracket counts as any one character, which is never narrower than what it says. */
function withoutBrackets(part: string): string {
  let text = "";
  for (let at = 0; at < part.length; at += 1) {
    const close = part[at] === "[" ? part.indexOf("]", at + 2) : -1;
    text += close === -1 ? part[at] : "?";
    if (close !== -1) at = close;
  }
  return text;
}

/** Linear in the product of both lengths, with at most one step back for each character. */
export function globMatches(glob: string, name: string): boolean {
  const pattern = withoutBrackets(glob);
  let at = 0;
  let star = -1;
  let resume = 0;
  for (let index = 0; index < name.length; ) {
    const char = pattern[at];
    if (char === "*") {
      star = at;
      resume = index;
      at += 1;
    } else if (char === "?" || (char !== undefined && char === name[index])) {
      at += 1;
      index += 1;
    } else if (star !== -1) {
      at = star + 1;
      resume += 1;
      index = resume;
    } else return false;
  }
  while (pattern[at] === "*") at += 1;
  return at === pattern.length;
}

/** A pattern that finds `..`. */
export function mayClimb(part: string): boolean {
  return part.startsWith(".") && /[*?[]/.test(part) && globMatches(part, "..");
}

/** Devices that hold file systems, and memory: `/dev/sda1`, `/dev/mem`. */
const DISK =
  /^\/dev\/(?:sd|hd|vd|xvd|nvme|mmcblk|loop|dm-|md|nbd|sr|zram|ram|rdisk|disk|mapper\/|mem$|kmem$|port$|root$)/;
const KERNEL = /^\/(?:proc\/sys|proc\/sysrq-trigger|proc\/kcore|sys|boot)(?:\/|$)/;
const ACCOUNTS =
  /^\/etc\/(?:(?:passwd|shadow|gshadow|group|sudoers|subuid|subgid)-?|ld\.so\.preload|crontab|sudoers\.d\/.*|pam\.d\/.*|cron\.[a-z]+\/.*|profile|bash\.bashrc|rc\.local)$/;
const CRON = /^\/var\/spool\/cron(?:\/|$)/;
const LOGIN = /(?:^|\/)\.ssh\/(?:authorized_keys2?|rc|environment)$/;

export function plainPath(path: string, standing: ShellDirectories): string {
  const parts = partsOf(path, standing);
  return parts === undefined ? path : `/${parts.join("/")}`;
}

/** Files by which git, shells and their like start programs later, without another word. */
const STARTED_FROM = [
  /(?:^|\/)\.git\/(?:config(?:\.worktree)?|hooks(?:\/.{1,256})?|info\/attributes|modules\/.{1,256}\/config)$/i,
  /(?:^|\/)\.(?:gitconfig|bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|kshrc|cshrc)$/,
  /(?:^|\/)\.(?:inputrc|lesskey|vimrc|exrc|gdbinit|screenrc|tmux\.conf|pythonrc|irbrc|perldb|psqlrc|sqliterc|xinitrc|xprofile)$/,
  /(?:^|\/)\.(?:ssh\/config|gnupg\/.{1,256}|config\/(?:git\/config|fish\/.{1,256}|autostart\/.{1,256}|systemd\/.{1,256}|nvim\/.{1,256}))$/,
];

/** Whether something is written there that is run when nobody looks. */
export function isStartedFrom(path: string, standing: ShellDirectories): boolean {
  const plain = plainPath(path, standing).replaceAll(INSIDE, "x");
  return STARTED_FROM.some((place) => place.test(plain));
}

/** A block device or the machine's memory. */
export function isDisk(path: string, standing: ShellDirectories): boolean {
  return DISK.test(plainPath(path, standing));
}

/** What is the machine's own to write: kernel settings, accounts, who may log in. */
export function isProtected(path: string, standing: ShellDirectories): boolean {
  const plain = plainPath(path, standing);
  return [DISK, KERNEL, ACCOUNTS, CRON, LOGIN].some((place) => place.test(plain));
}

const HARMLESS = /^\/dev\/(?:null|zero|full|tty|stdin|stdout|stderr|fd\/(?:[0-9]+|\0))$/;
const SCRATCH = /^\/(?:tmp|var\/tmp|dev\/shm|private\/tmp)\/./;

/** Where something is written, in the order of harm. */
export type WriteReach = "harmless" | "workspace" | "scratch" | "outside";

/** What cannot be known to lie inside counts as outside. */
export function reachOf(path: string, standing: ShellDirectories): WriteReach {
  if (HARMLESS.test(path)) return "harmless";
  if (path.includes(UNKNOWN)) return "outside";
  if (/^~[A-Za-z0-9_.+-]+(?:\/|$)/.test(path)) return "outside";
  const parts = partsOf(path, standing);
  const own = homeOf(standing);
  if (path.split("/").slice(0, -1).some(mayClimb)) return "outside";
  // From a place that nobody knows it may lead anywhere.
  if (parts === undefined && own !== undefined) return "outside";
  if (parts === undefined || own === undefined) {
    return path.startsWith("/") || path.startsWith(HOME) || path.split("/").includes("..") ? "outside" : "workspace";
  }
  if (own.every((part, index) => parts[index] === part) && parts.length > own.length) return "workspace";
  return SCRATCH.test(`/${parts.join("/")}`) ? "scratch" : "outside";
}

/** Whether a path surely leads to a part of the system, to another's home, or above the workspace: no mere `/api/users`. */
export function isForeign(path: string, standing: ShellDirectories): boolean {
  if (reachOf(path, standing) !== "outside" || path.includes(UNKNOWN)) return false;
  const parts = partsOf(path, standing);
  if (parts !== undefined && isHomeOf(parts, standing)) return false;
  if (!path.startsWith("/")) return true;
  const [top = ""] = parts ?? [];
  return SYSTEM.some(([first]) => first === top);
}
