import { afterAll, beforeAll, expect, test } from "bun:test";
import { z } from "zod";
import { AskingWorld, codeOf, recordingTool } from "../approvals/asking-world.ts";
import { OPERATORS_AUDIENCE } from "../support/live-tokens.ts";
import { AGENTS_AUDIENCE, AGENTS_ISSUER, issueToken } from "../support/tokens.ts";

const deeds: unknown[] = [];

/** A service whose agents and operators have tokens of one issuer. */
class OneIssuerWorld extends AskingWorld {
  override async start(): Promise<this> {
    const [agents] = this.issuers.profiles();
    await this.run({
      tools: [recordingTool("deed", deeds, z.strictObject({ what: z.string().max(10) }))],
      jwt: { issuers: [agents, { ...agents, audience: OPERATORS_AUDIENCE, operators: true }] },
      approvals: { store: "sqlite://./approvals.sqlite" },
      roles: { doer: { tools: ["deed"] }, decider: { permissions: ["approvals:decide"] } },
      bindings: [
        { role: "doer", group: "staff" },
        { role: "decider", group: "staff", operators: true },
      ],
    });
    return this;
  }

  token(sub: string, aud: string | readonly string[]): Promise<string> {
    const nowSeconds = Math.floor(Date.now() / 1_000);
    const times = { iat: nowSeconds - 1, exp: nowSeconds + 600 };
    return issueToken(this.issuers.agents, { iss: AGENTS_ISSUER, sub, aud, groups: ["staff"], ...times });
  }
}

const world = new OneIssuerWorld();
beforeAll(() => world.start());
afterAll(() => world.end());

test("one issuer serves agents and operators, told apart by their tokens' audience", async () => {
  const agent = await world.token("ann", AGENTS_AUDIENCE);
  const person = await world.token("bea", OPERATORS_AUDIENCE);
  const both = await world.token("bea", [AGENTS_AUDIENCE, OPERATORS_AUDIENCE]);
  const call = (token: string, more = {}) => world.call("deed", { what: "it" }, { token, ...more });
  const asked = await call(agent);
  expect([asked.http, world.entry(asked.body.traceId)?.caller]).toMatchObject([202, { sub: "ann", roles: ["doer"] }]);
  const { id } = asked.body.approval;
  const decide = async (token: string) => codeOf(await world.decide(id, "approve", { token }));
  const refused = [await decide(agent), await decide(both), codeOf(await call(person)), codeOf(await call(both))];
  expect(refused.map((code) => code === "HTTP 200" || code === "PENDING")).toEqual([false, false, false, false]);
  // Who asks is the same with either token, and never decides.
  expect(await decide(await world.token("ann", OPERATORS_AUDIENCE))).not.toBe("HTTP 200");
  expect(await decide(person)).toBe("HTTP 200");
  expect([codeOf(await call(agent, { approval: { id } })), deeds]).toEqual(["HTTP 200", [{ what: "it" }]]);
});
