import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { LiveIssuers } from "../support/live-tokens.ts";
import { RawServer } from "../support/raw-server.ts";
import { runStc } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";
import { decision, evaluations } from "./authzen-service.ts";
import { ask, cedarPoint, toolOf } from "./cedar-point.ts";

const page = readFileSync(join(PROJECT, "docs/decision-points.md"), "utf8");
const folder = mkdtempSync(join(tmpdir(), "stc-points-"));
const config = join(folder, "stc.yaml");
let pdp: RawServer;
beforeAll(async () => {
  pdp = await RawServer.start();
  pdp.answer = () => decision(false, { reason_admin: { en: "not today" } });
  for (const part of ["tools", "policies"])
    cpSync(join(PROJECT, "docs/examples/decision-points", part), join(folder, part), { recursive: true });
  mkdirSync(join(folder, "secrets"));
  writeFileSync(join(folder, "secrets/token"), "a-token-of-the-test");
  configure(join("policies", "orders.cedar"));
});
afterAll(() => {
  pdp.close();
  rmSync(folder, { recursive: true, force: true });
});

function configure(policiesFile: string): void {
  const cedar = { policiesFile, entitiesFile: "policies/people.json" };
  const url = `http://127.0.0.1:${pdp.port}`;
  const decisionPoints = [
    { name: "house-rules", cedar },
    {
      name: "company",
      arguments: "all",
      // The usual second may pass on a busy machine.
      timeoutMs: 10_000,
      authzen: { url, addresses: ["loopback"], auth: { bearerFile: "secrets/token" } },
    },
  ];
  const systems = { orders: { http: { baseUrl: `${url}/api`, addresses: ["loopback"] } } };
  const jwt = { issuers: new LiveIssuers().profiles() };
  const written = { tools: ["./tools"], audit: { dir: "./audit" }, jwt, systems, decisionPoints };
  writeFileSync(config, JSON.stringify(written));
}

test("the page's policies decide as the page says", async () => {
  const [, policies = ""] = /```cedar\n([\s\S]*?)```/.exec(page) ?? [];
  const [, entities = ""] = /```json\n(\[\{ "uid"[\s\S]*?)```/.exec(page) ?? [];
  const { point, problems } = await cedarPoint({ policies: policies.replaceAll(/^ {3}/gm, ""), entities });
  expect(problems).toEqual([]);
  const tool = toolOf("refund_order", { order: z.string().max(9), cents: z.int() });
  const verdicts = [10_000, 10_001].map((cents) => ask(point, { tool, args: { cents } }));
  expect(verdicts).toEqual(["allow", ["no policy permits the call"]]);
  expect(ask(point, { tool, caller: { subject: "bob" }, args: { cents: 1 } })).toEqual(["no policy permits the call"]);
});

test("the page's `stc plan` shows the questions and what Cedar answers, and asks others only when it is told to", async () => {
  const [, command = ""] = /^stc (plan .*)$/m.exec(page) ?? [];
  const args = [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");
  const issuer = ["--iss", "https://idp.test", "--config", config];
  const { code, out, err } = await runStc([...args, ...issuer]);
  expect([code, err]).toEqual([0, ""]);
  const { decisionPoints, method } = JSON.parse(out);
  expect(method).toBe("POST");
  expect(decisionPoints["house-rules"]).toMatchObject({
    asks: { principal: { type: "Client", id: "ann" }, context: { arg_order: "A-7", arg_cents: 6000 } },
    answer: { verdict: "allow" },
  });
  expect(decisionPoints.company).toEqual({
    asks: {
      ...{ method: "POST", url: `http://127.0.0.1:${pdp.port}/access/v1/evaluation` },
      body: expect.objectContaining({ context: { arguments: { order: "A-7", cents: 6000 } } }),
    },
  });
  expect(pdp.requests).toHaveLength(0);
  const asked = await runStc([...args, ...issuer, "--ask-external"]);
  expect(JSON.parse(asked.out).decisionPoints.company.answer).toEqual({ verdict: "deny", reasons: ["not today"] });
  expect(evaluations(pdp)).toHaveLength(1);
  const unnamed = await runStc([...args.slice(0, 3), "--config", config]);
  expect(JSON.parse(unnamed.out).decisionPoints["house-rules"].answer).toBeUndefined();
  const wrong = await runStc([...args.slice(0, 3), "--ask-external", "--config", config]);
  expect([wrong.code, wrong.err]).toEqual([64, expect.stringContaining("--ask-external needs --sub")]);
});

test("`stc check` names every problem of the policies with its place, and notes on tools that there are not", async () => {
  writeFileSync(join(folder, "policies/broken.cedar"), "permit(principal, action, resource);\npermit(principal;");
  configure("policies/broken.cedar");
  const broken = await runStc(["check", "--config", config]);
  expect(broken.code).toBe(78);
  expect(broken.err).toMatch(/decisionPoints\[0\]\.cedar\.policiesFile: policies\/broken\.cedar: line 2, column 17: /);
  writeFileSync(
    join(folder, "policies/odd.cedar"),
    '@id("x") permit(principal, action, resource == Tool::"refund_ordre");',
  );
  configure("policies/odd.cedar");
  const odd = await runStc(["check", "--config", config]);
  expect(odd.code).toBe(0);
  expect(odd.out).toContain(
    "note: decision point house-rules: policy x: no tool is called refund_ordre; did you mean refund_order?",
  );
});
