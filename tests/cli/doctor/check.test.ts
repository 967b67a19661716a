import { expect, test } from "bun:test";
import { runChecks } from "../../../src/cli/doctor/check.ts";
import { openDeployment } from "../../../src/cli/doctor/deployment.ts";

test.each([
  ["EACCES", "Run stc doctor as the service's user."],
  ["EPERM", "Run stc doctor as the service's user."],
  ["EMFILE", "Run stc doctor again, on a machine that is less busy."],
])("a check that fails with %s says what helps", async (code, next) => {
  const deployment = await openDeployment({ config: "/nonexistent/stc.yaml" });
  const run = (): never => {
    throw Object.assign(new Error(`${code}: open '/audit-logs/calls'`), { code });
  };
  const [result] = await runChecks([{ name: "audit log", run }], deployment);
  await deployment.close();
  expect(result?.findings).toEqual([
    { status: "failed", seen: expect.stringContaining(`could not be checked: ${code}`), next },
  ]);
});

test("a check that takes too long says that the machine may be busy, and one that succeeds is reported all the same", async () => {
  const deployment = await openDeployment({ config: "/nonexistent/stc.yaml" });
  const never = { name: "never", timeLimitMs: 1, run: () => new Promise<never>(() => {}) };
  const read = { name: "read", run: () => [{ status: "ok" as const, seen: "all is well" }] };
  const results = await runChecks([never, read], deployment);
  await deployment.close();
  expect(results).toMatchObject([
    { status: "failed", findings: [{ next: "Run stc doctor again, on a machine that is less busy." }] },
    { status: "ok", findings: [{ seen: "all is well" }] },
  ]);
});
