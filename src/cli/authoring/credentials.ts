import { statSync } from "node:fs";
import { isTable } from "../../core/json.ts";
import { labelOf } from "../../detection/labels.ts";
import { secretsAmong, textWithout } from "../../egress/sent-secrets.ts";
import { type Config, pathFrom } from "../../runtime/config/config.ts";
import { readPlainFile } from "../../runtime/config/plain-file.ts";

/** Keeps the service's own credentials out of what is shown to the author of a tool. */

const FILE_BYTES_MAX = 65_536;
/** Keys that name a file with a credential. */
const SECRET_FILE = /(?:key|secret|bearer|basic|value|headers|token|url|password)File$|^(?:client|private)?Key$/i;
/** Keys of tables whose members may be credentials. */
const TABLES: ReadonlySet<string> = new Set(["metadata", "headers", "env", "environment"]);
const DEPTH_MAX = 64;

/** Returns the texts of the configuration's credentials: contents of its secret files, and metadata with a secret's name. */
export function credentialsIn(config: Config): readonly string[] {
  const found: string[] = [];
  const visit = (value: unknown, key: string, depth: number): void => {
    if (depth > DEPTH_MAX) return;
    if (typeof value === "string" && SECRET_FILE.test(key)) found.push(...secretsOfFile(pathFrom(config, value)));
    if (Array.isArray(value)) for (const each of value) visit(each, key, depth + 1);
    if (!isTable(value)) return;
    for (const [name, inner] of Object.entries(value)) {
      if (TABLES.has(key) && typeof inner === "string" && labelOf(name).secret !== undefined) {
        found.push(inner, inner.slice(inner.indexOf(" ") + 1));
      }
      visit(inner, name, depth + 1);
    }
  };
  const { tools: _, ...sections } = config;
  visit(sections, "", 0);
  return secretsAmong(found);
}

/** A file that cannot be read is reported where it is used. */
function secretsOfFile(path: string): readonly string[] {
  try {
    if (statSync(path).size > FILE_BYTES_MAX) return [];
    const text = readPlainFile(path).toString("utf8").trim();
    const lines = text.split(/\r?\n/).filter((line) => !line.startsWith("-----"));
    const values = lines.map((line) => line.slice(line.lastIndexOf(" ") + 1));
    const passwords = lines.map((line) => line.slice(line.indexOf(":") + 1).trim());
    return [text, ...lines, ...values, ...passwords];
  } catch {
    return [];
  }
}

/** Returns a value with `[REDACTED]` in place of the credentials, in every text and key. */
export function withoutCredentials(value: unknown, secrets: readonly string[], depth = 0): unknown {
  if (secrets.length === 0) return value;
  if (typeof value === "string") return textWithout(value, secrets);
  if (typeof value !== "object" || value === null) return value;
  if (depth > DEPTH_MAX * 2) return textWithout("[too deep]", []);
  if (Array.isArray(value)) return value.map((each) => withoutCredentials(each, secrets, depth + 1));
  // A number beyond 2^53 and a date, among others, have no members: they are shown as JSON.stringify would write them.
  if ("toJSON" in value && typeof value.toJSON === "function")
    return withoutCredentials(value.toJSON(), secrets, depth + 1);
  const members = Object.entries(value).map(([key, inner]) => [
    textWithout(key, secrets),
    withoutCredentials(inner, secrets, depth + 1),
  ]);
  return Object.fromEntries(members);
}
