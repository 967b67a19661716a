import { expect } from "bun:test";
import { join } from "node:path";
import { auditEntries } from "../support/audit-files.ts";
import { runStc } from "../support/stc.ts";
import { expectContinued } from "./before-and-after.ts";
import type { StoredCopy } from "./stored-copy.ts";

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
  expect(after[before.length]).toMatchObject({ tool: { name: "hang" }, error: { code: "OUTCOME_UNKNOWN" } });
}

async function expectVerifies({ folder }: StoredCopy): Promise<void> {
  const key = join(folder, "checkpoint-key.pub");
  const { code, out, err } = await runStc(["audit", "verify", "--dir", join(folder, "audit"), "--key", key]);
  expect({ code, err, out }).toMatchObject({ code: 0, err: "" });
}
