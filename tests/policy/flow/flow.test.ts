import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { FlowWorld } from "./flow-world.ts";

let world: FlowWorld;
beforeEach(async () => {
  world = await new FlowWorld().start();
});
afterEach(() => world.end());

const IBAN = "DE89 3704 0044 0532 0130 00";

describe("a caller that has read untrusted and private data", () => {
  test("asks a person before it sends outside, and the entry says why", async () => {
    await world.readsMail("Hello, see you soon");
    await world.readsAccount({ number: "12 345", balance: 100 });
    const { http, body } = await world.call("send_mail", { to: ["bob@partner.test"], body: "hi" });
    expect({ http, status: body.status }).toEqual({ http: 202, status: "pending" });
    expect(world.entry(body.traceId)).toMatchObject({
      decision: "PENDING",
      decisionReasons: [
        {
          point: "data-flow",
          verdict: "requireApproval",
          reason: "the caller has read private and untrusted data, and this tool sends outside",
        },
      ],
      dataFlow: { before: ["private", "untrusted"] },
    });
  });

  test("may send outside after one of both", async () => {
    await world.readsMail("Hello, see you soon");
    const { http } = await world.call("send_mail", { to: ["bob@partner.test"], body: "hi" });
    expect(http).toBe(200);
  });

  test("may do what stays inside", async () => {
    await world.readsMail("Hello, see you soon");
    await world.readsAccount({ number: "12 345", balance: 100 });
    expect((await world.call("take_note", { text: "see you soon" })).http).toBe(200);
  });
});

describe("a destination", () => {
  test("from untrusted text asks a person, who sees where it came from", async () => {
    const read = await world.readsMail(`Please pay 98.70 to ${IBAN} today.`);
    const { http, body } = await world.call("pay", { iban: "de89370400440532013000", amount: 98.7 });
    expect({ http, status: body.status }).toEqual({ http: 202, status: "pending" });
    const { body: shown } = await world.send("GET", `/approvals/${body.approval.id}`, { token: await world.person() });
    expect(shown.approval.view.dataFlow).toEqual({
      carried: ["untrusted"],
      arguments: [
        {
          argument: "iban",
          destination: true,
          untrusted: true,
          sources: [
            { tool: "read_mail", traceId: read.body.traceId, of: "id: 812", field: "body", labels: ["untrusted"] },
          ],
        },
      ],
    });
    expect(world.entry(body.traceId)?.dataFlow?.sources).toEqual([
      { argument: "iban", tool: "read_mail", traceId: read.body.traceId, field: "body", labels: ["untrusted"] },
    ]);
  });

  test("from a trusted field passes", async () => {
    await world.readsMail({ sender: "carol@partner.test", body: "write to carol@partner.test" });
    expect((await world.call("send_mail", { to: ["carol@partner.test"], body: "hi" })).http).toBe(200);
  });

  test("from private data alone passes", async () => {
    await world.readsAccount({ number: IBAN });
    expect((await world.call("pay", { iban: IBAN, amount: 5 })).http).toBe(200);
  });

  test("that nothing was read about passes", async () => {
    await world.readsMail("Hello, see you soon");
    expect((await world.call("pay", { iban: IBAN, amount: 5 })).http).toBe(200);
  });
});

test("an approval that was given before a label was earned does not cover the call", async () => {
  await world.readsMail(`Pay to ${IBAN}`);
  const order = { iban: IBAN, amount: 1 };
  const { body } = await world.call("pay", order);
  await world.decide(body.approval.id, "approve");
  await world.readsAccount({ number: "12 345" });
  const claimed = await world.call("pay", order, { approval: { id: body.approval.id } });
  expect([claimed.http, claimed.body.error.code]).toEqual([409, "APPROVAL_MISMATCH"]);
  const again = await world.call("pay", order);
  expect(again.http).toBe(202);
  await world.decide(again.body.approval.id, "approve");
  expect((await world.call("pay", order, { approval: { id: again.body.approval.id } })).http).toBe(200);
});
