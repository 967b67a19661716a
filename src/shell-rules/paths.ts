import { names, type ShellDirectories, words } from "./call.ts";
import { HOME, INSIDE, UNKNOWN } from "./words.ts";

/** Directories whose loss destroys the machine or somebody's work. */
const SYSTEM = words(`/ /bin /boot /dev /etc /home /lib /lib32 /lib64 /media /mnt /opt /proc /root /run /sbin /srv /sys
  /usr /var /Users /System /Library /Applications /usr/bin /usr/lib /usr/lib64 /usr/local /usr/sbin /usr/share
  /usr/local/bin /usr/local/lib /var/lib /var/log /var/spool /home/?* /Users/?* /etc/ssh /etc/pam.d /private
  /private/etc`).map((path) => path.split("/").filter((part) => part !== ""));

/** Returns the parts of a path from the root, with `.` and `..` resolved; `undefined` when its folder is unknown. */
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
 * Returns whether removing or opening all of a path is a catastrophe: the root, a system directory, a home, everything in such
 * a directory, or a folder above the workspace.
 */
export function isCatastrophic(path: string, directories: ShellDirectories): boolean {
  if (isHome(path)) return true;
  const parts = partsOf(path, directories);
  if (parts === undefined) return false;
  if (SYSTEM.some((pattern) => matches(parts, pattern))) return true;
  const all = parts.at(-1);
  const above = all !== undefined && matchesEverything(all) ? parts.slice(0, -1) : parts;
  if (above !== parts && (SYSTEM.some((pattern) => matches(above, pattern)) || isHomeOf(above, directories))) {
    return !isWorkspaceGlob(path, above, directories);
  }
  return isAbove(above, directories);
}

function isHome(path: string): boolean {
  const rest = path.startsWith(HOME) ? path.slice(1) : undefined;
  if (rest !== undefined)
    return rest.split("/").every((part) => part === "" || part === "." || matchesEverything(part));
  // Another user's home: `~name`, `~root/*`.
  const [name = "", ...below] = path.split("/");
  return (
    /^~[A-Za-z0-9_.+-]*$/.test(name) && name !== "~" && below.every((part) => part === "" || matchesEverything(part))
  );
}

function homeOf({ home }: ShellDirectories): readonly string[] | undefined {
  return home === undefined ? undefined : partsOf(home, { cwd: undefined, home: undefined });
}

function isHomeOf(parts: readonly string[], directories: ShellDirectories): boolean {
  const own = homeOf(directories);
  return own !== undefined && own.length > 0 && matches(parts, own);
}

/** Returns whether the path is a relative glob in the workspace: builds run `rm -rf *`, which asks instead of being denied. */
function isWorkspaceGlob(path: string, above: readonly string[], directories: ShellDirectories): boolean {
  return !path.startsWith("/") && isHomeOf(above, directories);
}

function isAbove(parts: readonly string[], directories: ShellDirectories): boolean {
  const own = homeOf(directories);
  if (own === undefined || parts.length >= own.length) return false;
  return matches(parts, own.slice(0, parts.length));
}

/** Returns whether a path can match a pattern; the parts of both may be globs. */
function matches(parts: readonly string[], pattern: readonly string[]): boolean {
  return (
    parts.length === pattern.length &&
    pattern.every((part, index) => {
      const own = parts[index] ?? "";
      return part === "?*" ? own !== "" : globMatches(own, part);
    })
  );
}

/** Returns whether a part is a glob without fixed characters, such as `*`, `.*`, `?*` or `[a-z]*`. */
function matchesEverything(part: string): boolean {
  return part.includes("*") && !/[A-Za-z0-9_\0-]/.test(withoutBrackets(part));
}

/** Replaces brackets by `?`, which matches at least as much. */
function withoutBrackets(part: string): string {
  let text = "";
  for (let at = 0; at < part.length; at += 1) {
    const close = part[at] === "[" ? part.indexOf("]", at + 2) : -1;
    text += close === -1 ? part[at] : "?";
    if (close !== -1) at = close;
  }
  return text;
}

/** Returns whether a name matches a glob. Takes at most as many steps as the product of both lengths. */
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

export function mayBeParent(part: string): boolean {
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

export function plainPath(path: string, directories: ShellDirectories): string {
  const parts = partsOf(path, directories);
  return parts === undefined ? path : `/${parts.join("/")}`;
}

/** Files from which git, shells and editors start programs later. */
const STARTED_FROM = [
  /(?:^|\/)\.git\/(?:config(?:\.worktree)?|hooks(?:\/.{1,256})?|info\/attributes|modules\/.{1,256}\/config)$/i,
  /(?:^|\/)\.(?:gitconfig|bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|kshrc|cshrc)$/,
  /(?:^|\/)\.(?:inputrc|lesskey|vimrc|exrc|gdbinit|screenrc|tmux\.conf|pythonrc|irbrc|perldb|psqlrc|sqliterc|xinitrc|xprofile)$/,
  /(?:^|\/)\.(?:ssh\/config|gnupg\/.{1,256}|config\/(?:git\/config|fish\/.{1,256}|autostart\/.{1,256}|systemd\/.{1,256}|nvim\/.{1,256}))$/,
];

export function isStartedFrom(path: string, directories: ShellDirectories): boolean {
  const plain = plainPath(path, directories).replaceAll(INSIDE, "x");
  return STARTED_FROM.some((pattern) => pattern.test(plain));
}

/** Returns whether a path is a block device or the machine's memory. */
export function isDisk(path: string, directories: ShellDirectories): boolean {
  return DISK.test(plainPath(path, directories));
}

/** Returns whether only the system may write a path: kernel settings, accounts, login files, devices. */
export function isProtected(path: string, directories: ShellDirectories): boolean {
  const plain = plainPath(path, directories);
  return [DISK, KERNEL, ACCOUNTS, CRON, LOGIN].some((pattern) => pattern.test(plain));
}

const HARMLESS = /^\/dev\/(?:null|zero|full|tty|stdin|stdout|stderr|fd\/(?:[0-9]+|\0))$/;
const SCRATCH = /^\/(?:tmp|var\/tmp|dev\/shm|private\/tmp)\/./;

/** Location of a path, in the order of harm. */
export type PathLocation = "harmless" | "workspace" | "scratch" | "outside";

/** Returns the location of a path. A path that is not certainly inside counts as outside. */
export function locationOf(path: string, directories: ShellDirectories): PathLocation {
  if (HARMLESS.test(path)) return "harmless";
  if (path.includes(UNKNOWN)) return "outside";
  if (/^~[A-Za-z0-9_.+-]+(?:\/|$)/.test(path)) return "outside";
  const parts = partsOf(path, directories);
  const own = homeOf(directories);
  if (path.split("/").slice(0, -1).some(mayBeParent)) return "outside";
  // A relative path in an unknown folder may lead anywhere.
  if (parts === undefined && own !== undefined) return "outside";
  if (parts === undefined || own === undefined) {
    return path.startsWith("/") || path.startsWith(HOME) || path.split("/").includes("..") ? "outside" : "workspace";
  }
  if (own.every((part, index) => parts[index] === part) && parts.length > own.length) return "workspace";
  return SCRATCH.test(`/${parts.join("/")}`) ? "scratch" : "outside";
}

/** Returns whether a path surely is in the system, in another home or above the workspace, unlike `/api/users`. */
export function isForeign(path: string, directories: ShellDirectories): boolean {
  if (locationOf(path, directories) !== "outside" || path.includes(UNKNOWN)) return false;
  const parts = partsOf(path, directories);
  if (parts !== undefined && isHomeOf(parts, directories)) return false;
  if (!path.startsWith("/")) return true;
  const [top = ""] = parts ?? [];
  return SYSTEM.some(([first]) => first === top);
}

/** Files of keys and secrets: whole paths, or the last parts of a path. */
const FILES = words(`/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/krb5.keytab
  /etc/ssh/ssh_host_*_key /etc/kubernetes/*.conf /etc/ssl/private/* /proc/*/environ /proc/*/mem /proc/*/task/*/environ
  /proc/*/task/*/mem .ssh/* .aws/credentials .kube/config .docker/config.json .netrc .git-credentials .npmrc .pypirc
  .pgpass .my.cnf .vault-token .bash_history .zsh_history .cargo/credentials .cargo/credentials.toml
  .config/gh/hosts.yml .gem/credentials .terraform.d/credentials.tfrc.json .azure/*.json .config/gcloud/*.db
  .config/gcloud/*.json`).map(patternOf);

/** Folders that contain only secrets. */
const FOLDERS = words(`/etc/sudoers.d /etc/ssl/private /var/run/secrets /run/secrets .gnupg .password-store /proc/*/root
  /proc/*/fd`).map(patternOf);

/** Folders that may be listed, but not copied whole. */
const HOLDERS = [".ssh", ".aws", ".kube", ".docker", ".azure", ".config/gcloud"].map(patternOf);

/** Public files of `.ssh`. */
const PUBLIC = /^(?:known_hosts.*|config|.*\.pub)$/;

/** Names that `ssh-keygen` gives to keys, in any folder. */
const PRIVATE_KEY = /^id_(?:rsa|dsa|ecdsa|ed25519|ecdsa_sk|ed25519_sk|[rde?]?[a-z0-9]{0,16}\*)$/;

interface SecretPattern {
  readonly isWhole: boolean;
  readonly parts: readonly string[];
}

function patternOf(path: string): SecretPattern {
  return { isWhole: path.startsWith("/"), parts: path.split("/").filter((part) => part !== "") };
}

export function isSecretPath(path: string, directories: ShellDirectories): boolean {
  const parts = plainParts(path, directories);
  const [last = ""] = parts.slice(-1);
  if (FOLDERS.some((folder) => isBelow(parts, folder))) return true;
  if (parts.at(-2) === ".ssh" && PUBLIC.test(last)) return false;
  const isInUnknownFolder = parts[0] === UNKNOWN || partsOf(path, directories) === undefined;
  if (isInUnknownFolder && SECRET_NAMES.has(last)) return true;
  return PRIVATE_KEY.test(last) || FILES.some((file) => endsWith(parts, file));
}

/** Names of files with keys and secrets, in any folder. */
const SECRET_NAMES = names(`id_rsa id_dsa id_ecdsa id_ed25519 shadow gshadow .netrc .git-credentials .npmrc .pypirc
  .pgpass .vault-token credentials`);

/** Returns whether a pattern matches one of these names, but not every name. */
export function findsSecret(pattern: string): boolean {
  return /[A-Za-z]/.test(pattern) && [...SECRET_NAMES].some((name) => globMatches(pattern.toLowerCase(), name));
}

export function isSecretFolder(path: string, directories: ShellDirectories): boolean {
  const parts = plainParts(path, directories);
  return [...HOLDERS, ...FOLDERS].some((folder) => endsWith(parts, folder));
}

function plainParts(path: string, directories: ShellDirectories): readonly string[] {
  const parts = partsOf(path, directories) ?? path.split("/").filter((part) => part !== "" && part !== ".");
  return parts.map(readPart);
}

function endsWith(parts: readonly string[], { isWhole, parts: pattern }: SecretPattern): boolean {
  if (isWhole ? parts.length !== pattern.length : parts.length < pattern.length) return false;
  return pattern.every((wanted, at) => partMatches(parts[parts.length - pattern.length + at] ?? "", wanted));
}

function isBelow(parts: readonly string[], { isWhole, parts: pattern }: SecretPattern): boolean {
  const starts = isWhole ? [0] : parts.keys();
  return [...starts].some(
    (start) =>
      parts.length >= start + pattern.length &&
      (parts.length > start + pattern.length || isWhole) &&
      pattern.every((wanted, at) => partMatches(parts[start + at] ?? "", wanted)),
  );
}

/** Replaces unknown pieces of a part by `*`. A part that is unknown as a whole stays, and matches nothing. */
function readPart(part: string): string {
  return part === UNKNOWN ? part : part.replaceAll(UNKNOWN, "*");
}

/** Returns whether two parts can be the same name. Both may be globs; a glob without a leading dot matches no hidden file. */
function partMatches(part: string, wanted: string): boolean {
  if (wanted.startsWith(".") && !part.startsWith(".")) return false;
  return wanted.includes("*") ? globMatches(wanted, part) || globMatches(part, wanted) : globMatches(part, wanted);
}
