import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Tool } from "../../../../src/core/types.ts";
import {
  type ChildConfinement,
  type ConfinementOptions,
  confinementProblem,
  openConfinement,
} from "../../../../src/targets/command/confinement/confinement.ts";
import { cliHandler } from "../../../../src/targets/command/handler.ts";

/** Reason why this machine cannot confine anything, shown by the tests that are skipped then. */
export const missing = confinementProblem();

/** The programs of these tests by name. */
export const COMMANDS: ReadonlyMap<string, string> = new Map(
  ["bash", "git", "true"].flatMap((name) => {
    const found = Bun.which(name);
    return found === null ? [] : [[name, realpathSync(found)] as const];
  }),
);

export interface ConfinedStand {
  readonly confinement: ChildConfinement;
  call(tool: Tool, input?: Readonly<Record<string, unknown>>): Promise<unknown>;
  close(): Promise<void>;
}

const caller = { issuer: "https://idp.test", subject: "agent", permissions: [], actors: [], expiresAt: 0 };
const DEADLINE_MS = 20_000;

/** Confines tools as the service does, and plans and runs them as the pipeline does. The clock always returns 0. */
export async function confinedStand(
  tools: readonly Tool[],
  options: Partial<ConfinementOptions> = {},
): Promise<ConfinedStand> {
  const commands = options.commands ?? COMMANDS;
  const newId = (): string => crypto.randomUUID();
  const confinement = await openConfinement(tools, {
    ...{ mode: "require", unconfinedShell: false, launchersMax: 2, commands, systemAccess: new Map(), newId },
    ...options,
  });
  const emptyDirectory = mkdtempSync(join(realpathSync(tmpdir()), "stc-test-"));
  const handler = cliHandler({ commands, confinement, emptyDirectory, now: () => 0, newId });
  return {
    confinement,
    async call(tool, input = {}) {
      // The service would not register it. Here it would run unconfined, and some of the tests' commands are attacks.
      const why = confinement.withheld.get(tool.name);
      if (why !== undefined) throw new Error(why);
      const binding = handler.bind(tool);
      const signal = new AbortController().signal;
      const plan = await binding.plan(input, { signal });
      return binding.run(plan, { signal, deadline: DEADLINE_MS, traceId: "trace", caller });
    },
    async close() {
      await handler.close();
      rmSync(emptyDirectory, { recursive: true });
    },
  };
}
