import {
  chmodSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { STC } from "../support/stc.ts";
import type { Recorded } from "./before-and-after.ts";
import { StoredService } from "./stored-service.ts";

/** For each version: the tools that it had, and what it left behind on each database. */
const STORES = join(import.meta.dir, "stores");
/** The versions that have stores here, oldest first. */
export const VERSIONS: readonly string[] = readdirSync(STORES).sort();

/** Time from the end of the recorded service to the start of the next one, by its clock. */
const PAUSE_MS = 10_000;

/** A copy of what a version left behind, and the current service for it, by whose clock little time has passed. */
export interface StoredCopy {
  readonly folder: string;
  readonly recorded: Recorded;
  readonly service: StoredService;
  /** How much the service's clock is behind the machine's, in milliseconds. */
  readonly behindMs: number;
  end(): Promise<void>;
}

export function copyStore(version: string, database: "sqlite" | "postgres"): StoredCopy {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-upgrade-")));
  cpSync(join(STORES, version, database), folder, { recursive: true });
  cpSync(join(STORES, version, "tools"), join(folder, "tools"), { recursive: true });
  // Git does not keep these modes.
  for (const secret of ["checkpoint-key.pem", "hash-key"]) chmodSync(join(folder, secret), 0o600);
  if (database === "sqlite") {
    const path = join(folder, "approvals.sqlite");
    writeFileSync(path, gunzipSync(readFileSync(`${path}.gz`)), { mode: 0o600 });
  }
  const recorded = JSON.parse(readFileSync(join(folder, "recorded.json"), "utf8")) as Recorded;
  const behindMs = Date.now() - Date.parse(recorded.at) - PAUSE_MS;
  const [bun, ...rest] = STC;
  const argv = [bun, `--preload=${join(import.meta.dir, "shifted-clock.ts")}`, ...rest];
  const service = new StoredService(folder, argv, -behindMs);
  return {
    ...{ folder, recorded, service, behindMs },
    async end() {
      await service.end("SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
