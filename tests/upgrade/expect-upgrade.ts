import { expect } from "bun:test";
import { join } from "node:path";
import { auditEntries } from "../support/audit-files.ts";
import { runStc } from "../support/stc.ts";
import { expectContinued } from "./before-and-after.ts";
import type { StoredCopy } from "./stored-copy.ts";
import { outcome } from "./stored-service.ts";
import { ADDITIVE_STEP, CONTRACTING_STEP } from "./toy-step.ts";

/** Expects that the current service continues a copy of what `version` left, with an audit that verifies before and after. */
export async function expectUpgraded(copy: StoredCopy, version: string): Promise<void> {
  const dir = join(copy.folder, "audit");
  await expectVerifies(copy);
  const before = auditEntries(dir);
  await copy.service.start();
  await expectContinued(copy.service, copy.recorded, { from010: version === "0.1.0" });
  expect(await copy.service.end("SIGTERM")).toBe(0);
  await expectVerifies(copy);
  const after = auditEntries(dir);
  expect(after.slice(0, before.length)).toEqual([...before]);
  // The call that the old service did not finish.
  const unfinished = after[before.length];
  expect(unfinished).toMatchObject({ tool: { name: "hang" }, error: { code: "OUTCOME_UNKNOWN" } });
  // Version 0.1.0 did not record which configuration judged a call.
  expect(unfinished?.policyVersion === undefined).toBe(version === "0.1.0");
}

async function expectVerifies({ folder }: StoredCopy): Promise<void> {
  const key = join(folder, "checkpoint-key.pub");
  const { code, out, err } = await runStc(["audit", "verify", "--dir", join(folder, "audit"), "--key", key]);
  expect({ code, err, out }).toMatchObject({ code: 0, err: "" });
}

/**
 * Expects that the current service works on the tables of a next version: while they are raised, and after a restart, as in a
 * rolling upgrade and after a rollback.
 */
export async function expectWorksOnRaised(
  { service, recorded }: StoredCopy,
  raise: (step: string) => Promise<unknown>,
) {
  await service.start();
  await raise(ADDITIVE_STEP);
  const id = await service.ask("change", { what: "while it was raised" });
  expect((await service.decide(id, "approve")).http).toBe(200);
  const claimed = await service.call("change", { what: "while it was raised" }, { approval: id });
  expect(outcome(claimed)).toBe("200 success");
  expect(await service.end("SIGTERM")).toBe(0);
  await service.start();
  await expectContinued(service, recorded, { from010: false });
}

export async function expectRefusesContracted({ service }: StoredCopy, raise: (step: string) => Promise<unknown>) {
  await service.start();
  await service.end("SIGTERM");
  await raise(CONTRACTING_STEP);
  await expect(service.start()).rejects.toThrow(
    /ended with 78: .*approvals store .*newer version of this service \(schema (\d+), for versions that know \1; this one knows \d+\): run that version/s,
  );
}
