import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { ApprovalService } from "../../support/approval-service.ts";
import { runStc } from "../../support/stc.ts";

let service: ApprovalService;
beforeAll(async () => {
  service = await new ApprovalService({ pendingPerCallerMax: 100, coolDownSeconds: 1 }).start();
  writeFileSync(join(service.folder, "token"), await service.person());
  writeFileSync(join(service.folder, "agents-token"), await service.agent());
  const session = { token: await service.agent({ claims: { sid: "s-1" } }) };
  for (let count = 0; count < 20; count += 1) {
    const { id } = (await service.call("do_write", "a", session)).body.approval;
    await service.decide(id, "approve");
    await service.call("do_write", "a", { ...session, approval: { id } });
  }
});
afterAll(() => service.end());

function report(args: readonly string[] = [], token = "token") {
  const env = { STC_URL: service.url, STC_TOKEN_FILE: join(service.folder, token) };
  return runStc(["approvals", "report", ...args], { env });
}

describe("APR-60: stc approvals report", () => {
  test("for people: numbers, thresholds, and rules that would avoid approval requests", async () => {
    const { code, out, err } = await report();
    expect([code, err]).toEqual([0, ""]);
    expect(out).toContain("20 requests: approved 20, denied 0, expired 0, cancelled 0, pending 0\n");
    expect(out).toMatch(/^approval rate 100 %, median [\d.]+ s, p90 [\d.]+ s, approved in 3 s (?:100|[5-9]\d) %$/m);
    expect(out).toContain("ALERT: over 95 % are approved");
    expect(out).toContain("ALERT: over 50 % of the decisions were approvals within three seconds");
    expect(out).toMatch(/^do_write +20 +20 +0 +100 % /m);
    expect(out).toMatch(/^alice +https:\/\/people\.test +20 +0 +100 % .*ALERT$/m);
    expect(out).toMatch(/^HOUR +APPROVER +ISSUER +ASKED +DECIDED +MEDIAN +APPROVED IN 3 S$/m);
    expect(out).toMatch(
      /^\d{4}-\d\d-\d\dT\d\d:00:00\.000Z +alice +https:\/\/people\.test +\d+ +\d+ +[\d.]+ s +[\d.]+ %$/m,
    );
    expect(out).toContain("  19 fewer: do_write: the same call repeats in one session");
  });

  test("for programs: the service's answer", async () => {
    const { code, out } = await report(["--since", "1h", "--json"]);
    expect(code).toBe(0);
    expect(JSON.parse(out).report).toMatchObject({
      ...{ asked: 20, isWhole: true, alerts: ["approval_rate", "hasty_share"] },
      suggestions: [
        { kind: "session_scope", tool: "do_write", prompts: 19 },
        { kind: "auto_edit", prompts: 20 },
      ].sort((a, b) => b.prompts - a.prompts),
    });
  });

  test.each([
    [["--since", "soon"], "token", 64, "--since"],
    [["--since", "1h", "--until", "2h"], "token", 1, "MALFORMED_REQUEST"],
    [[], "agents-token", 1, "PERMISSION_DENIED"],
    [[], "none", 64, "no token"],
  ] as const)("%j with %s", async (args, token, code, said) => {
    const ended = await report(args, token);
    expect([ended.code, ended.out]).toEqual([code, ""]);
    expect(ended.err).toContain(said);
  });

  test("an empty report", async () => {
    const { out } = await report(["--since", "2020-01-01", "--until", "2020-01-02"]);
    expect(out).toBe(
      "from 2020-01-01T00:00:00.000Z to 2020-01-02T00:00:00.000Z\n" +
        "0 requests: approved 0, denied 0, expired 0, cancelled 0, pending 0\n" +
        "approval rate -, median -, p90 -, approved in 3 s -\n",
    );
  });
});
