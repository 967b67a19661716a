import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { diskFiles } from "../audit/journal/file-operations.ts";
import { sha256Hex } from "../core/digest.ts";
import { systemCode } from "../core/error-text.ts";
import { StartupError } from "../core/errors.ts";
import { parseStrictJson } from "../core/strict-json.ts";
import { readPlainFile } from "../runtime/config/plain-file.ts";
import { ARCHIVE_BYTES_MAX, type ArchiveFiles } from "./archive.ts";
import { assertBundle } from "./bundle-error.ts";
import { type Accepted, type Bundle, type BundleExpectations, checkBundle } from "./checks.ts";
import { type BundleFolders, contractRoots } from "./policy.ts";

const STATE_LIMITS = { depthMax: 4, keysMax: 32, elementsMax: 32 } as const;
const DIGEST_CHARACTERS = 16;
const PRIVATE_DIRECTORY = { recursive: true, mode: 0o700 } as const;

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const moment = z.iso.datetime();

const state = z.strictObject({
  version: z.int().min(1),
  digest: sha256,
  keys: z.array(z.string()),
  timestamp: z.strictObject({ version: z.int().min(1), digest: sha256, createdAt: moment, expires: moment }),
});

/** A verified bundle whose files are on disk. */
export interface PlacedBundle extends Pick<Bundle, "manifest" | "digest" | "policy">, BundleFolders {}

/**
 * The last good bundle of a member, in a folder of its own. `state.json` names it, and is replaced in one step after everything else is
 * on disk: after a crash it names the bundle before or the new one, whole.
 */
export class BundleStore {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Returns what was accepted last; undefined before the first bundle. @throws {StartupError} when the file is damaged */
  accepted(): Accepted | undefined {
    const path = join(this.#dir, "state.json");
    try {
      return state.parse(parseStrictJson(readPlainFile(path), STATE_LIMITS));
    } catch (error) {
      if (systemCode(error) === "ENOENT") return undefined;
      throw new StartupError([
        `bundle.dir: ${path} cannot be read: set bundle.minVersion to the version in use and remove the file to begin again`,
      ]);
    }
  }

  /** Returns the last good bundle, verified again. @throws {BundleError} */
  load({ version, digest }: Accepted, expected: BundleExpectations): PlacedBundle {
    const isAllowed = version >= expected.minVersion;
    assertBundle(
      isAllowed,
      "rollback",
      `the kept version ${version} is below bundle.minVersion, which is ${expected.minVersion}`,
    );
    return this.#place(checkBundle(this.#archive(digest), expected, { version, digest }, undefined));
  }

  /** Writes a verified bundle next to the one in use. */
  async keep(bundle: Bundle, archive: Uint8Array): Promise<PlacedBundle> {
    mkdirSync(this.#dir, PRIVATE_DIRECTORY);
    const path = this.#archivePath(bundle.digest);
    // A command that checks the configuration may write the same bundle at the same time.
    const draft = mkdtempSync(`${path}.`);
    try {
      await diskFiles.replace(join(draft, "archive"), archive);
      renameSync(join(draft, "archive"), path);
    } finally {
      rmSync(draft, { recursive: true, force: true });
    }
    return this.#place(bundle);
  }

  /** Remembers what was accepted. Call it after every check: what is remembered cannot be lowered again. */
  async remember(accepted: Accepted): Promise<void> {
    await diskFiles.replace(join(this.#dir, "state.json"), Buffer.from(`${JSON.stringify(accepted)}\n`));
    await diskFiles.syncDirectory(this.#dir);
  }

  /** Removes all bundles but these. */
  forgetOthers(used: readonly Pick<PlacedBundle, "digest" | "folder" | "contracts">[]): void {
    const kept = new Set(
      used.flatMap(({ digest, folder, contracts }) => [this.#archivePath(digest), folder, ...contracts.values()]),
    );
    for (const folder of [this.#dir, join(this.#dir, "versions"), join(this.#dir, "contracts")]) {
      for (const name of namesIn(folder)) {
        const path = join(folder, name);
        // Unfinished drafts are removed, too: their names are longer.
        const isBundle = folder !== this.#dir || name.includes(".tar.gz");
        if (isBundle && !kept.has(path)) rmSync(path, { recursive: true, force: true });
      }
    }
  }

  #archivePath(digest: string): string {
    return join(this.#dir, `${digest}.tar.gz`);
  }

  #archive(digest: string): Uint8Array {
    try {
      const bytes = readPlainFile(this.#archivePath(digest));
      assertBundle(bytes.length <= ARCHIVE_BYTES_MAX, "malformed", "the kept bundle is too large");
      return bytes;
    } catch (error) {
      assertBundle(systemCode(error) !== "ENOENT", "mixed", "the kept bundle is missing");
      throw error;
    }
  }

  /**
   * Unpacks a bundle into a folder named after it. What systems name as contracts is also in folders named after their content: an
   * approval holds for the settings of its system, and must survive a version with the same contract.
   */
  #place({ manifest, digest, files, policy }: Bundle): PlacedBundle {
    const folder = join(this.#dir, "versions", `${manifest.version}-${digest.slice(0, DIGEST_CHARACTERS)}`);
    place(folder, files);
    const contracts = [...contractRoots(policy)].map((root) => {
      const part = new Map([...files].filter(([path]) => path === root || path.startsWith(`${root}/`)));
      const content = sha256Hex([...part].map(([path, bytes]) => `${path} ${sha256Hex(bytes)}`).join("\n"));
      // The whole digest: two contracts that share a part of it would share approvals.
      const own = join(this.#dir, "contracts", content);
      place(own, part);
      return [root, own] as const;
    });
    return { manifest, digest, policy, folder, contracts: new Map(contracts) };
  }
}

/** Makes a folder that holds exactly these files, in one step. */
function place(folder: string, files: ArchiveFiles): void {
  // The folder may be in use by the service while a command checks the configuration.
  if (holdsExactly(folder, files)) return;
  mkdirSync(dirname(folder), PRIVATE_DIRECTORY);
  // Each process has its own draft: another one may place the same folder at the same time.
  const draft = mkdtempSync(`${folder}.`);
  try {
    for (const [path, content] of files) {
      mkdirSync(dirname(join(draft, path)), PRIVATE_DIRECTORY);
      writeFileSync(join(draft, path), content, { mode: 0o600 });
    }
    moveInto(folder, draft, files);
  } finally {
    // A full disk must not keep a draft of each attempt.
    rmSync(draft, { recursive: true, force: true });
  }
}

function moveInto(folder: string, draft: string, files: ArchiveFiles): void {
  try {
    renameSync(draft, folder);
  } catch {
    // The folder exists: another process was faster, or its content is damaged.
    if (holdsExactly(folder, files)) return;
    rmSync(folder, { recursive: true, force: true });
    renameSync(draft, folder);
  }
}

function namesIn(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}

function holdsExactly(folder: string, files: ArchiveFiles): boolean {
  try {
    const entries = readdirSync(folder, { withFileTypes: true, recursive: true });
    const found = entries.filter((entry) => !entry.isDirectory()).length;
    return (
      found === files.size && [...files].every(([path, content]) => readFileSync(join(folder, path)).equals(content))
    );
  } catch {
    return false;
  }
}
