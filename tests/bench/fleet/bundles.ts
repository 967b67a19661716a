import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RunningStc, runStc } from "../../support/stc.ts";
import { quantile } from "./counters.ts";
import { firstTimes } from "./first-times.ts";
import type { Fleet } from "./fleet.ts";
import type { Figure } from "./report.ts";

const OF = { fleet: "fleet", environment: "measured" } as const;
/** Looks of all members together in a second. */
const LOOKS_PER_SECOND = 200;
const LOOK_MS_MIN = 50;
const IN_FORCE_MS_MAX = 60_000;

/** The server of the fleet's policy, with the keys that sign it. */
export class Bundles {
  readonly #folder: string;
  #server: RunningStc | undefined;
  #url = "";
  version = 0;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** Serves the first version. */
  static async start(folder: string): Promise<Bundles> {
    const bundles = new Bundles(folder);
    mkdirSync(join(folder, "policy"), { recursive: true });
    for (const key of ["content", "online"]) {
      const { out } = await ran(["audit", "keys", "--new", join(folder, `${key}.key`)]);
      writeFileSync(join(folder, `${key}.pem`), out);
    }
    await bundles.publish();
    bundles.#server = new RunningStc(["bundle", "serve", bundles.#out, "--port", "0"]);
    const printed = await bundles.#server.printed(/ at http:\S+/);
    bundles.#url = / at (http:\S+)/.exec(printed)?.[1] ?? "";
    return bundles;
  }

  /** The section of a member. */
  get section(): object {
    const [keysFile, timestampKeysFile] = [join(this.#folder, "content.pem"), join(this.#folder, "online.pem")];
    return { url: this.#url, dir: "./bundle", ...OF, keysFile, timestampKeysFile };
  }

  get #out(): string {
    return join(this.#folder, "bundles");
  }

  /** Signs another policy under the next version. It is offered with its timestamp: when this resolves. */
  async publish(): Promise<void> {
    this.version += 1;
    const calls = 1_000_000 + this.version;
    const policy = { limits: { rates: { callerAndTool: { calls, seconds: 60 } } } };
    writeFileSync(join(this.#folder, "policy/policy.yaml"), JSON.stringify(policy));
    const named = ["--fleet", OF.fleet, "--environment", OF.environment, "--version", String(this.version)];
    await ran(["bundle", "build", join(this.#folder, "policy"), "--out", this.#out, ...named]);
    await ran(["bundle", "sign", this.#out, "--key", join(this.#folder, "content.key")]);
    await ran(["bundle", "sign", this.#out, "--key", join(this.#folder, "online.key"), "--timestamp"]);
  }

  async end(): Promise<void> {
    await this.#server?.end("SIGKILL");
  }
}

async function ran(args: readonly string[]) {
  const ended = await runStc(args);
  if (ended.code !== 0) throw new Error(`stc ${args.join(" ")}: ${ended.code} ${ended.out}${ended.err}`);
  return ended;
}

/** Publishes new versions, and looks when each member has taken them over. */
export async function bundleFigures(fleet: Fleet, rounds: number): Promise<readonly Figure[]> {
  const times: number[] = [];
  const worst: number[] = [];
  const everyMs = Math.max(LOOK_MS_MIN, (1_000 * fleet.members.length) / LOOKS_PER_SECOND);
  for (let round = 0; round < rounds; round += 1) {
    const version = fleet.bundles.version + 1;
    const looks = firstTimes(fleet.members, { everyMs, limitMs: IN_FORCE_MS_MAX }, async (member) => {
      const { body } = await fleet.atHub("GET", "/readyz", undefined, member);
      return body.bundle?.version >= version;
    });
    await fleet.bundles.publish();
    const from = performance.now();
    const taken = (await Promise.all(looks)).map((at) => Math.max(0, at - from));
    times.push(...taken);
    worst.push(Math.max(...taken));
  }
  return [
    { what: "a bundle is in force on a member, p50", value: quantile(times, 0.5), unit: "ms" },
    {
      what: `a bundle is in force on all members`,
      value: Math.max(...worst),
      ...{ unit: "ms", reach: 5_000, aim: 2_000 },
      note: `the slowest of ${rounds}, from the end of stc bundle sign --timestamp; each member is asked every ${Math.round(everyMs)} ms`,
    },
  ];
}
