import fs from "node:fs";
import { dirname } from "node:path";
import { z } from "zod";
import { HALT_KINDS } from "../core/api/halts.ts";
import { sha256Hex } from "../core/digest.ts";
import type { CallHalt } from "./halt.ts";

const BYTES_MAX = 16_777_216;
const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY, O_CREAT, O_TRUNC } = fs.constants;
const MODE = 0o600;

const identity = z.strictObject({ issuer: z.string(), subject: z.string() });
const saved = z.strictObject({
  version: z.literal(1),
  /** The clock of the state, ahead of this machine's, in milliseconds. */
  aheadMs: z.number(),
  halts: z
    .array(
      z.strictObject({
        id: z.string(),
        target: z.strictObject({
          kind: z.enum(HALT_KINDS),
          issuer: z.string(),
          value: z.string(),
          tenant: z.string().optional(),
        }),
        reason: z.string(),
        cancelRunning: z.boolean(),
        setBy: identity,
        setAt: z.number(),
        until: z.number().optional(),
        ofService: z.enum(["tenant", "all"]).optional(),
      }),
    )
    .readonly(),
});

interface SavedHalts {
  readonly halts: readonly CallHalt[];
  readonly aheadMs: number;
}

/** The halts that this process knew last, for a start at which the state cannot be read. */
export interface HaltFile {
  /** Returns undefined when there is no file. @throws {Error} when the file is damaged or cannot be read */
  read(): SavedHalts | undefined;
  /** Replaces the file in one step; it is on disk afterwards. @throws {Error} */
  write(known: SavedHalts): void;
}

export function haltFile(path: string): HaltFile {
  return {
    read() {
      const content = contentOf(path);
      if (content === undefined) return undefined;
      const [json = "", digest] = content.split("\n");
      if (sha256Hex(json) !== digest) throw new Error(`${path} is damaged`);
      const { halts, aheadMs } = saved.parse(JSON.parse(json));
      return { aheadMs, halts: halts.map((halt) => ({ ...halt, until: halt.until })) };
    },
    write({ halts, aheadMs }) {
      const json = JSON.stringify({ version: 1, aheadMs, halts } satisfies z.input<typeof saved>);
      const fresh = `${path}.new`;
      const fd = fs.openSync(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK, MODE);
      try {
        fs.fchmodSync(fd, MODE);
        fs.writeFileSync(fd, `${json}\n${sha256Hex(json)}\n`);
        fs.fsyncSync(fd);
      } finally {
        fs.closeSync(fd);
      }
      fs.renameSync(fresh, path);
      sync(dirname(path));
    },
  };
}

function contentOf(path: string): string | undefined {
  let fd: number;
  try {
    // Without O_NONBLOCK, opening a named pipe would wait for its other end.
    fd = fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
  try {
    const facts = fs.fstatSync(fd);
    if (!facts.isFile() || facts.size > BYTES_MAX) throw new Error(`${path} is damaged`);
    return fs.readFileSync(fd, "utf8");
  } finally {
    fs.closeSync(fd);
  }
}

function sync(directory: string): void {
  const fd = fs.openSync(directory, O_RDONLY);
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
