import { names, words } from "../names.ts";
import { globMatches, partsOf, type ShellDirectories } from "./place.ts";
import { UNKNOWN } from "./word.ts";

/** Where keys and other people's secrets usually lie: parts of the end of a path, or with `/` in front of a whole one. */
const FILES = words(
  "/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/krb5.keytab /etc/ssh/ssh_host_*_key",
  "/etc/kubernetes/*.conf /etc/ssl/private/* /proc/*/environ /proc/*/mem /proc/*/task/*/environ /proc/*/task/*/mem",
  ".ssh/* .aws/credentials .kube/config .docker/config.json .netrc .git-credentials .npmrc .pypirc .pgpass .my.cnf",
  ".vault-token .bash_history .zsh_history .cargo/credentials .cargo/credentials.toml .config/gh/hosts.yml",
  ".gem/credentials .terraform.d/credentials.tfrc.json .azure/*.json .config/gcloud/*.db .config/gcloud/*.json",
).map(placeOf);

/** All below these is secret. */
const FOLDERS = words(
  "/etc/sudoers.d /etc/ssl/private /var/run/secrets /run/secrets .gnupg .password-store /proc/*/root /proc/*/fd",
).map(placeOf);

/** Folders that are harmless to list, and not to take whole. */
const HOLDERS = [".ssh", ".aws", ".kube", ".docker", ".azure", ".config/gcloud"].map(placeOf);

/** Of `.ssh`, what everybody may know. */
const PUBLIC = /^(?:known_hosts.*|config|.*\.pub)$/;

/** What `ssh-keygen` calls its keys, wherever they lie. */
const PRIVATE_KEY = /^id_(?:rsa|dsa|ecdsa|ed25519|ecdsa_sk|ed25519_sk|[rde?]?[a-z0-9]{0,16}\*)$/;

interface SecretPlace {
  readonly isWhole: boolean;
  readonly parts: readonly string[];
}

function placeOf(path: string): SecretPlace {
  return { isWhole: path.startsWith("/"), parts: path.split("/").filter((part) => part !== "") };
}

export function isSecretPlace(path: string, standing: ShellDirectories): boolean {
  const parts = plainParts(path, standing);
  const [last = ""] = parts.slice(-1);
  if (FOLDERS.some((folder) => isBelow(parts, folder))) return true;
  if (parts.at(-2) === ".ssh" && PUBLIC.test(last)) return false;
  return PRIVATE_KEY.test(last) || FILES.some((file) => endsWith(parts, file));
}

/** Names by which such files are found wherever they lie. */
const TELLING = names(
  "id_rsa id_dsa id_ecdsa id_ed25519 shadow gshadow .netrc .git-credentials .npmrc .pypirc .pgpass .vault-token credentials",
);

/** Whether a pattern of names finds one of them, and does not just find everything. */
export function findsSecret(pattern: string): boolean {
  return /[A-Za-z]/.test(pattern) && [...TELLING].some((name) => globMatches(pattern.toLowerCase(), name));
}

/** A folder of which a part or all is secret. */
export function isSecretFolder(path: string, standing: ShellDirectories): boolean {
  const parts = plainParts(path, standing);
  return [...HOLDERS, ...FOLDERS].some((folder) => endsWith(parts, folder));
}

function plainParts(path: string, standing: ShellDirectories): readonly string[] {
  const parts = partsOf(path, standing) ?? path.split("/").filter((part) => part !== "" && part !== ".");
  return parts.map(readPart);
}

function endsWith(parts: readonly string[], { isWhole, parts: place }: SecretPlace): boolean {
  if (isWhole ? parts.length !== place.length : parts.length < place.length) return false;
  return place.every((wanted, at) => partMatches(parts[parts.length - place.length + at] ?? "", wanted));
}

function isBelow(parts: readonly string[], { isWhole, parts: place }: SecretPlace): boolean {
  const starts = isWhole ? [0] : parts.keys();
  return [...starts].some(
    (start) =>
      parts.length >= start + place.length &&
      (parts.length > start + place.length || isWhole) &&
      place.every((wanted, at) => partMatches(parts[start + at] ?? "", wanted)),
  );
}

/** What is not known of a part may be anything; a part of which nothing is known is not guessed at. */
function readPart(part: string): string {
  return part === UNKNOWN ? part : part.replaceAll(UNKNOWN, "*");
}

/** Either may be a pattern; one of the shell's that begins with no dot finds no name that does. */
function partMatches(part: string, wanted: string): boolean {
  if (wanted.startsWith(".") && !part.startsWith(".")) return false;
  return wanted.includes("*") ? globMatches(wanted, part) || globMatches(part, wanted) : globMatches(part, wanted);
}
