import { afterEach, beforeEach, expect, test } from "bun:test";
import type { OpenedApprovals } from "../../../src/approvals/approvals.ts";
import { readKeys, verifyMessage } from "../../../src/approvals/notify/signature.ts";
import type { WebhookParts, WebhookTarget } from "../../../src/approvals/notify/webhook.ts";
import { type LiveWebhooks, startWebhooks } from "../../../src/approvals/notify/webhooks.ts";
import { type ApprovalWorld, askFor, createApprovalWorld } from "../../support/approvals.ts";
import { until } from "../../support/until.ts";
import { Receiver } from "./receiver.ts";

const SECRETS = [3, 4].map((byte) => `whsec_${Buffer.alloc(32, byte).toString("base64")}`);
const NO_INTEGRATIONS = new Map();

let world: ApprovalWorld;
let store: OpenedApprovals;
let former: Receiver;
let next: Receiver;
let webhooks: LiveWebhooks;
const said: string[] = [];

beforeEach(async () => {
  world = createApprovalWorld();
  store = await world.open();
  former = new Receiver();
  next = new Receiver();
  said.length = 0;
  await store.outbox.register("chat");
  const parts: WebhookParts = {
    ...{ approvals: store, clock: () => world.now, random: () => 0.5, owner: "owner" },
    ...{ pollMs: 5, timeoutMs: 2_000, report: (line: string) => said.push(line) },
  };
  webhooks = startWebhooks({ targets: [target(former)], integrations: NO_INTEGRATIONS, parts });
});
afterEach(async () => {
  await webhooks.stop();
  await Promise.all([former.close(), next.close()]);
  await world.end();
});

function target(
  receiver: Receiver,
  changes: Partial<WebhookTarget> & { readonly secret?: string } = {},
): WebhookTarget {
  const { secret = SECRETS[0] ?? "", ...rest } = changes;
  return {
    ...{ name: "chat", deployment: "test", detail: "summary", publicUrl: undefined, url: receiver.url },
    ...{ events: ["approval.requested"], keys: readKeys(secret, "sign"), ...rest },
  };
}

function change(...targets: readonly WebhookTarget[]): void {
  webhooks.change({ targets, integrations: NO_INTEGRATIONS });
}

function question(digit: string) {
  return askFor(store, { planDigest: digit.repeat(64), viewDigest: digit.repeat(64), grantKey: undefined });
}

function sent(name = "chat"): number {
  return webhooks.states().find(({ webhook }) => webhook === name)?.sent ?? 0;
}

/** Until the far side lets it go, what comes has no answer. */
function held(receiver: Receiver): () => void {
  const { promise, resolve } = Promise.withResolvers<Response>();
  receiver.answer = () => promise;
  return () => resolve(new Response(null, { status: 204 }));
}

test("a delivery in progress ends unchanged, and the next goes to the new address; nothing is sent twice", async () => {
  const letGo = held(former);
  const { id: first } = await question("1");
  await former.untilArrived(1);
  change(target(next));
  const { id: second } = await question("2");
  // The two share one place in the store: the new one waits.
  expect(next.arrived).toEqual([]);
  letGo();
  await next.untilArrived(1);
  expect([former, next].map(({ arrived }) => arrived.map(({ json }) => json.data.id))).toEqual([[first], [second]]);
  await until("both counts", () => (sent() === 2 ? true : undefined));
});

test("messages that the former receiver did not accept go to the new one at once", async () => {
  former.answer = () => new Response(null, { status: 500 });
  const { id } = await question("1");
  await former.untilArrived(1);
  await until("the failure", () => webhooks.states().find(({ failures }) => failures === 1));
  change(target(next));
  world.now += 6_000;
  const [arrived] = await next.untilArrived(1);
  expect([arrived?.json.data.id, arrived?.id]).toEqual([id, former.arrived[0]?.id]);
  expect(webhooks.states()).toEqual([
    { webhook: "chat", sent: expect.any(Number), failures: 1, dead: 0, stale: 0, isDisabled: false },
  ]);
});

test("a receiver that answered 410 is notified again only after it was replaced", async () => {
  former.answer = () => new Response(null, { status: 410 });
  await question("1");
  await until("its end", () => webhooks.states().find(({ isDisabled }) => isDisabled));
  change(target(former));
  await question("2");
  expect(webhooks.states()[0]?.isDisabled).toBe(true);
  change(target(next));
  await until("its return", () => webhooks.states().find(({ isDisabled }) => !isDisabled));
  const { id } = await question("3");
  expect((await next.untilArrived(1))[0]?.json.data.id).toBe(id);
  expect(former.arrived).toHaveLength(1);
});

test("an unchanged receiver is left alone, and another receiver's new key is used", async () => {
  const letGo = held(former);
  await question("1");
  await former.untilArrived(1);
  // Twice the same, read twice: nothing ends, nothing is sent twice.
  for (let times = 0; times < 3; times += 1) change(target(former));
  letGo();
  await until("the first", () => (sent() === 1 ? true : undefined));
  change(target(former, { secret: SECRETS[1] ?? "" }));
  await question("2");
  const [, second] = await former.untilArrived(2);
  if (second === undefined) throw new Error("nothing came");
  const message = { ...second, body: Buffer.from(second.body) };
  const verified = SECRETS.map((secret) =>
    verifyMessage(message, { keys: readKeys(secret, "verify"), nowMs: world.now }),
  );
  expect(verified.map((outcome) => "problem" in outcome)).toEqual([true, false]);
});

test("many changes during one delivery: the last one counts", async () => {
  const letGo = held(former);
  await question("1");
  await former.untilArrived(1);
  const others = [new Receiver(), new Receiver()];
  for (const other of others) change(target(other));
  change();
  change(target(former));
  change(target(next));
  letGo();
  await question("2");
  await next.untilArrived(1);
  expect([former, ...others].map(({ arrived }) => arrived.length)).toEqual([1, 0, 0]);
  await Promise.all(others.map((other) => other.close()));
});

test("a removed receiver is no longer notified, and continues where it was after it returns", async () => {
  change();
  await until("its end", () => (webhooks.states().length === 0 ? true : undefined));
  const { id } = await question("1");
  expect(former.arrived).toEqual([]);
  change(target(former));
  expect((await former.untilArrived(1))[0]?.json.data.id).toBe(id);
});

test("closing aborts a delivery in progress", async () => {
  held(former);
  await question("1");
  await former.untilArrived(1);
  change(target(next));
  await webhooks.stop();
  change(target(next));
  await question("2");
  expect(next.arrived).toEqual([]);
});

test("the current configuration determines who may answer", () => {
  const integrations = new Map([["chat", { keys: [], people: new Map() }]]);
  webhooks.change({ targets: [target(former)], integrations });
  expect(webhooks.integrations).toBe(integrations);
});
