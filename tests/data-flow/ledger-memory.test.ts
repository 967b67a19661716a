import { expect, test } from "bun:test";
import { FlowLedger } from "../../src/data-flow/ledger.ts";
import { operationsOn } from "../../src/database/operations.ts";
import { openSharedState } from "../../src/database/shared-state.ts";
import { stateInUse } from "../support/hub-state.ts";

test("a process forgets the answers of a caller that the database has left out", async () => {
  const state = openSharedState({ now: () => 1_000_000, monotonic: () => 0 });
  const ledger = new FlowLedger({
    state: stateInUse(operationsOn(state, async () => {})),
    newSecret: () => "5a".repeat(32),
  });
  const carriers = [{ issuer: "https://issuer.test", subject: "agent-7", session: "" }];
  const known = async () => (await ledger.judge(carriers)).sources.values().length;
  await known();
  for (let call = 0; call < 2_100; call += 1) {
    const answer = {
      id: `answer-${call}`,
      tool: "read_mail",
      traceId: "call",
      of: "",
      labels: [],
      rememberMs: 60_000,
      fields: [{ path: "body", isTrusted: false }],
      prints: new Uint8Array(9),
      isCut: false,
    };
    await ledger.remember(carriers, { compare: () => ({ answer, with: { seq: 0 } }), learn: async () => {} });
  }
  expect(await known()).toBeLessThan(1_100);
});
