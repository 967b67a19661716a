import { retryDelayMs } from "../../core/retry.ts";
import type { ExportLine } from "../export/batch.ts";
import { AuditStoreError } from "./store-error.ts";
import type { StoreWriter } from "./writer.ts";

/** A line that the store will never accept. */
export interface RefusedLine {
  readonly line: ExportLine;
  readonly reason: string;
}

/** Lines that are stored at once, as an exporter does. A message of a collector may hold far more. */
export const LINES_AT_ONCE = 500;
/** How long a store may be away, after it has been asked once. */
const AWAY_MS = 300_000;
const RETRY = { firstMs: 500, maxMs: 10_000 } as const;

/** Stores lines that others hand in, each at least once. */
export class StoreFiller {
  readonly #writer: StoreWriter;

  constructor(writer: StoreWriter) {
    this.#writer = writer;
  }

  /** @throws {AuditStoreError} when the store does not answer now */
  async check(): Promise<void> {
    const outcome = await this.#writer.write([]);
    if (outcome.kind !== "taken") throw notStored(outcome.reason);
  }

  /** Returns the lines that the store refused; all others are stored. @throws {AuditStoreError} */
  async store(lines: readonly ExportLine[]): Promise<readonly RefusedLine[]> {
    const refused: RefusedLine[] = [];
    for (let at = 0; at < lines.length; at += LINES_AT_ONCE) {
      refused.push(...(await this.#stored(lines.slice(at, at + LINES_AT_ONCE))));
    }
    return refused;
  }

  async #stored(lines: readonly ExportLine[]): Promise<readonly RefusedLine[]> {
    const reason = await this.#refusal(lines);
    if (reason === undefined) return [];
    const [line] = lines;
    if (line !== undefined && lines.length === 1) return [{ line, reason }];
    const middle = Math.ceil(lines.length / 2);
    return [...(await this.#stored(lines.slice(0, middle))), ...(await this.#stored(lines.slice(middle)))];
  }

  /** Returns why the store refused one of the lines, which may be any of them. */
  async #refusal(lines: readonly ExportLine[]): Promise<string | undefined> {
    let waitedMs = 0;
    for (let attempt = 1; ; attempt += 1) {
      const outcome = await this.#writer.write(lines);
      if (outcome.kind === "taken") return undefined;
      if (outcome.kind === "refused") return outcome.reason;
      if (waitedMs >= AWAY_MS) throw notStored(outcome.reason);
      const pauseMs = retryDelayMs(RETRY, attempt, 0);
      waitedMs += pauseMs;
      await Bun.sleep(pauseMs);
    }
  }
}

function notStored(reason: string): AuditStoreError {
  return new AuditStoreError(`the audit store accepts no lines: ${reason}`);
}
