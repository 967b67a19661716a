import { createHash } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readSync, realpathSync, statSync } from "node:fs";
import { isAbsolute, join, relative } from "node:path";
import { forEachChild, parse, type SyntaxNode, type Word } from "unbash";
import { isBelow } from "../../core/paths.ts";

/** Words that are tried as names. */
const WORDS_MAX = 512;
/** Folders that the words name, in which the other words are tried too. */
const FOLDERS_MAX = 8;
/** Files that are hashed, and bytes of all of them. */
const FILES_MAX = 64;
const BYTES_MAX = 33_554_432;
const CHUNK_BYTES = 262_144;
const WORD_CHARACTERS_MAX = 4_096;
/** Of all words that are tried. */
const NAMES_CHARACTERS_MAX = 65_536;
/** Nodes inside one another that are looked at: a script inside others is read once for each of them. */
const DEPTH_MAX = 128;

export interface NamedFiles {
  readonly files: Readonly<Record<string, string>>;
  readonly unhashed: readonly string[];
}

interface Place {
  /** Absolute, links resolved. */
  readonly workspace: string;
  readonly cwd: string;
}

/**
 * The files of the workspace that a script's literal words name, hashed: when one of them changes between the approval and the
 * run, the plan is another plan. What a script reaches without naming it cannot be seen here.
 */
export function namedFiles(script: string, { workspace, cwd }: Place): NamedFiles {
  const { words, patterns } = wordsOf(script);
  const unhashed = new Set(patterns);
  const bases = [cwd, ...folders(words, { workspace, cwd }, unhashed)];
  const files = new Map<string, string>();
  let bytesLeft = BYTES_MAX;
  for (const word of words) {
    for (const base of bases) {
      const path = inside(workspace, isAbsolute(word) ? word : join(base, word));
      if (path === undefined) continue;
      const name = relative(workspace, path);
      if (files.has(name)) continue;
      const hashed = files.size < FILES_MAX ? hashFile(path, bytesLeft) : undefined;
      if (hashed === undefined) unhashed.add(name);
      else {
        files.set(name, hashed.sha256);
        bytesLeft -= hashed.bytes;
      }
    }
  }
  return { files: Object.fromEntries([...files].sort(([a], [b]) => (a < b ? -1 : 1))), unhashed: [...unhashed].sort() };
}

interface Words {
  readonly words: readonly string[];
  /** Words that stand for more names than they say. */
  readonly patterns: readonly string[];
}

/** Every literal word, also in quotes, here-documents and scripts inside the script, and the parts of each. */
function wordsOf(script: string): Words {
  const words = new Set<string>();
  const patterns = new Set<string>();
  let charactersLeft = NAMES_CHARACTERS_MAX;
  const add = (text: string): void => {
    if (words.size >= WORDS_MAX || charactersLeft <= 0) return;
    for (const word of [text, ...text.split(/[\s"'`;&|<>(){}=,:]+/, WORDS_MAX)]) {
      const name = word.replace(/^~\//, "").slice(0, WORD_CHARACTERS_MAX);
      if (name === "" || words.size >= WORDS_MAX || words.has(name) || name.length > charactersLeft) continue;
      words.add(name);
      charactersLeft -= name.length;
    }
  };
  const visit = (node: SyntaxNode, depth: number): void => {
    if (node.type === "Word") {
      if (isPattern(node) && patterns.size < FILES_MAX) patterns.add(node.text.slice(0, WORD_CHARACTERS_MAX));
      add(node.value);
    } else if (node.type === "HereDocBody") add(node.text);
    if (depth < DEPTH_MAX) forEachChild(node, (child) => visit(child, depth + 1));
  };
  add(script);
  try {
    visit(parse(script), 0);
  } catch {
    // What cannot be read as a script was split at its blanks, above.
  }
  return { words: [...words], patterns: [...patterns] };
}

function isPattern({ parts }: Word): boolean {
  return parts?.some(({ type }) => type === "Glob" || type === "ExtendedGlob" || type === "BraceExpansion") === true;
}

function folders(words: readonly string[], { workspace, cwd }: Place, unhashed: Set<string>): readonly string[] {
  const found: string[] = [];
  for (const word of words) {
    const path = isAbsolute(word) ? word : join(cwd, word);
    if (word === "." || found.length >= FOLDERS_MAX || kindOf(path) !== "folder") continue;
    const real = realOf(path);
    if (real === undefined || !isBelow(real, workspace)) continue;
    found.push(real);
    unhashed.add(`${relative(workspace, real) || "."}/`);
  }
  return found;
}

/** The regular file that a path leads to, when that lies in the workspace. */
function inside(workspace: string, path: string): string | undefined {
  const real = realOf(path);
  return real !== undefined && isBelow(real, workspace) && kindOf(real) === "file" ? real : undefined;
}

function realOf(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}

function kindOf(path: string): "file" | "folder" | "other" {
  try {
    const found = statSync(path);
    if (found.isFile()) return "file";
    return found.isDirectory() ? "folder" : "other";
  } catch {
    return "other";
  }
}

/** A pipe or device in a file's place does not hold us up: it is opened without waiting and not read. */
function hashFile(path: string, bytesMax: number): { sha256: string; bytes: number } | undefined {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
    const { size } = fstatSync(descriptor);
    if (!fstatSync(descriptor).isFile() || size > bytesMax) return undefined;
    const hash = createHash("sha256");
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    let bytes = 0;
    for (let read = readSync(descriptor, chunk); read > 0; read = readSync(descriptor, chunk)) {
      bytes += read;
      if (bytes > bytesMax) return undefined;
      hash.update(chunk.subarray(0, read));
    }
    return { sha256: hash.digest("hex"), bytes };
  } catch {
    return undefined;
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}
