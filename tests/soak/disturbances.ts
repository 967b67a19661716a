import type { Stand } from "./stand.ts";
import type { Circumstances } from "./traffic.ts";

/** How long calls may still feel a gRPC service that is back: the circuit's pause and the connection's backoff. */
const RECOVERY_MS = 12_000;
const AWAY_MS = 2_000;
const FETCHED_MS = 500;
/** Between the beginnings of two disturbances, as a share of the run, and at most this. */
const PAUSE_MS_MAX = 20_000;
const PAUSES_PER_RUN = 12;

interface Disturbance {
  readonly name: string;
  /** Resolves to what was to follow from it and did not. */
  act(stand: Stand, circumstances: Circumstances): Promise<string | undefined>;
}

/** What must not be taken over. */
const MISTAKES: readonly ((stand: Stand) => void)[] = [
  (stand) => stand.writeConfiguration("server: ["),
  (stand) => stand.configure({ tolls: [] }),
  (stand) => stand.configure({ limits: { concurrentCallsMax: 1_000 } }),
  (stand) => stand.writeManifest('throw new Error("broken");'),
  (stand) => stand.writeManifest("export const = ;"),
];
let mistakes = 0;

const DISTURBANCES: readonly Disturbance[] = [
  {
    name: "key rotated",
    async act(stand, circumstances) {
      circumstances.keysNew = true;
      await stand.rotateKeys();
      await Bun.sleep(FETCHED_MS);
      circumstances.keysNew = false;
      return undefined;
    },
  },
  {
    name: "gRPC service gone and back",
    act: (stand, circumstances) =>
      away(circumstances, async () => {
        await stand.killTarget();
        await Bun.sleep(AWAY_MS);
        await stand.startTarget();
      }),
  },
  { name: "configuration changed", act: (stand) => taken(stand, () => stand.configure()) },
  { name: "manifest changed", act: (stand) => taken(stand, () => stand.writeManifest()) },
  {
    name: "mistake made and mended",
    async act(stand) {
      const make = MISTAKES[mistakes % MISTAKES.length];
      mistakes += 1;
      const isRefused = await stand.reloadedBy(() => make?.(stand), "refused");
      const mended = await taken(stand, () => {
        stand.writeManifest();
        stand.configure();
      });
      return isRefused ? mended : `mistake ${mistakes} was not refused`;
    },
  },
  {
    name: "changed while no keys can be fetched",
    act: (stand) =>
      stand.withoutKeys(async () => {
        const missing = await taken(stand, () => stand.configure());
        await Bun.sleep(AWAY_MS);
        return missing;
      }),
  },
  {
    name: "certificates rotated",
    act: (stand, circumstances) => away(circumstances, () => stand.rotateCertificates()),
  },
];

async function away(circumstances: Circumstances, act: () => Promise<void>): Promise<undefined> {
  circumstances.targetAway = true;
  await act();
  await Bun.sleep(RECOVERY_MS);
  circumstances.targetAway = false;
}

async function taken(stand: Stand, act: () => void): Promise<string | undefined> {
  return (await stand.reloadedBy(act, "changed")) ? undefined : "a change was not taken over";
}

/** One after the other, again and again, until the run is over; each of them at least once, however short it is. */
export class Disturbances {
  readonly #counts = new Map<string, number>();
  /** What was to follow from one and did not. */
  readonly missing: string[] = [];
  readonly #running: Promise<void>;
  #isOver = false;

  constructor(stand: Stand, circumstances: Circumstances, runMs: number) {
    this.#running = this.#run(stand, circumstances, Math.min(PAUSE_MS_MAX, runMs / PAUSES_PER_RUN));
  }

  get count(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  told(): string {
    return [...this.#counts].map(([name, count]) => `${name} ${count}`).join(", ");
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
  }

  async #run(stand: Stand, circumstances: Circumstances, pauseMs: number): Promise<void> {
    for (let turn = 0; turn < DISTURBANCES.length || !this.#isOver; turn += 1) {
      await Bun.sleep(pauseMs);
      const next = DISTURBANCES[turn % DISTURBANCES.length];
      if (next === undefined) return;
      const missing = await next.act(stand, circumstances);
      if (missing !== undefined) this.missing.push(`${next.name}: ${missing}`);
      this.#counts.set(next.name, (this.#counts.get(next.name) ?? 0) + 1);
    }
  }
}
