import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { StagePoint } from "../../src/core/policy-point.ts";
import { MODULES } from "../../src/modules.ts";
import { HaltService } from "../support/halt-service.ts";

/** Waits until the test lets it decide. */
class SlowPoint implements StagePoint<"elevation"> {
  readonly name = "slow";
  readonly stage = "elevation";
  during: () => Promise<unknown> = async () => {};

  async decide() {
    await this.during();
    return { verdict: "allow" } as const;
  }
}

let service: HaltService;
let point: SlowPoint;
beforeEach(async () => {
  service = new HaltService();
  point = new SlowPoint();
  const modules = { ...MODULES, policyPoints: { ...MODULES.policyPoints, others: [point] } };
  const quotas = [{ name: "shared", per: ["tool"], calls: 1, window: "month" }];
  await service.start({ limits: { quotas } }, modules);
});
afterEach(() => service.end());

const codeOf = ({ body }: { readonly body: { readonly status: string; readonly error?: { readonly code: string } } }) =>
  body.error?.code ?? body.status;
const halt = async (): Promise<void> => {
  point.during = async () => {};
  await service.halt({ kind: "tool", tool: "do_write" });
};

describe("a halt that comes while a decision point thinks", () => {
  test("asks nobody about the call", async () => {
    point.during = halt;
    const refused = await service.call("do_write");
    expect(codeOf(refused)).toBe("HALTED");
    expect(service.entry(refused.body.traceId)).toMatchObject({
      error: { code: "HALTED" },
      denial: { stage: "PERMISSION" },
    });
    expect(service.journal().filter(({ type }) => String(type).startsWith("approval."))).toEqual([]);
  });

  test("repeats no answer of an earlier call", async () => {
    const headers = { "idempotency-key": "k-1" };
    const asked = await service.call("do_write", { headers });
    await service.decide(asked.body.approval.id, "approve");
    expect(codeOf(await service.call("do_write", { headers }))).toBe("success");
    point.during = halt;
    expect(codeOf(await service.call("do_write", { headers }))).toBe("HALTED");
    expect(service.begun).toEqual(["a"]);
  });
});

async function dryRun() {
  const body = { tool: "do_read", args: { what: "a" }, dryRun: true };
  return service.send("POST", "/call", { token: await service.agent(), body });
}

test("dry runs take nothing of a quota, so that nobody else is refused", async () => {
  const verdicts = await Promise.all(Array.from({ length: 16 }, dryRun));
  expect(verdicts.map(({ body }) => body.verdict)).toEqual(Array.from({ length: 16 }, () => "allow"));
  const token = await service.person({ permissions: ["quotas:read"] });
  expect((await service.send("GET", "/quotas", { token })).body.use).toEqual([]);
  expect(codeOf(await service.call("do_read"))).toBe("success");
  const { body } = await dryRun();
  expect(body).toMatchObject({ status: "dryRun", verdict: "deny", error: { code: "QUOTA_EXCEEDED" } });
  expect(service.entry(body.traceId)).toMatchObject({ decision: "DRY_RUN", error: { code: "QUOTA_EXCEEDED" } });
});
