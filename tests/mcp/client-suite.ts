import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Loose } from "../support/asking-service.ts";
import { TokenProxy } from "../support/token-proxy.ts";
import { until } from "../support/until.ts";
import { McpWorld } from "./mcp-world.ts";

/** Each client as its users run it; where it belongs to an agent, a scripted model makes the calls. */
export interface ConnectedClient {
  tools(): Promise<readonly string[]>;
  /** Returns the text that a model gets. */
  call(name: string, args: object, signal?: AbortSignal): Promise<string>;
  close(): Promise<void>;
}

interface Target {
  readonly url: string;
  readonly token: string;
}

export type Connect = (target: Target) => Promise<ConnectedClient>;

const FOUND = { order: "ord_1", email: "a**@c********.example", total: 12.5 };

async function openApproval(service: McpWorld, sub: string): Promise<string> {
  return until("an approval request", async () => {
    const { body } = await service.send("GET", "/approvals", { token: await service.person() });
    return body.approvals.find(({ state, requester }: Loose) => state === "pending" && requester.sub === sub)?.id;
  });
}

/** What a client of any kind must be able to do, against the real service. `clients` are titles and ways to connect. */
export function testClients(clients: readonly (readonly [string, Connect])[]): void {
  let world: McpWorld;
  /** The same without holding calls: the pending result comes at once. */
  let hasty: McpWorld;

  beforeAll(async () => {
    world = await new McpWorld().start();
    hasty = await new McpWorld().start({ mcp: { holdSeconds: 0 } });
  });
  afterAll(async () => {
    await world.end();
    await hasty.end();
  });

  describe.each(clients)("%s", (title, connect) => {
    let client: ConnectedClient;
    let impatient: ConnectedClient;
    const open = async (service: McpWorld): Promise<ConnectedClient> =>
      connect({ url: `${service.url}/mcp`, token: await service.caller({ sub: title }) });

    beforeAll(async () => {
      client = await open(world);
      impatient = await open(hasty);
    });
    afterAll(async () => {
      await client.close();
      await impatient.close();
    });

    test("lists the tools and calls one", async () => {
      expect((await client.tools()).toSorted()).toEqual(["orders_find", "orders_refund", "reports_read"]);
      expect(JSON.parse(await client.call("orders_find", { order: "ord_1" }))).toEqual(FOUND);
      expect(world.last()).toMatchObject({ decision: "ALLOWED", caller: { sub: title }, protocol: { name: "mcp" } });
    });

    test("gives the model the reason of a refusal, and the corrected call runs", async () => {
      // LangChain checks arguments itself.
      expect(await client.call("orders_find", { order: "--help" })).toMatch(
        /INVALID_INPUT: |did not match expected schema/,
      );
      const tooMuch = await client.call("orders_refund", { order: "ord_1", cents: 5_000 });
      expect(tooMuch).toContain("PERMISSION_DENIED: ");
      expect(JSON.parse(await client.call("orders_find", { order: "ord_1" }))).toEqual(FOUND);
    });

    test("waits for the approver and gets the result", async () => {
      const answer = client.call("orders_refund", { order: "ord_1", cents: 5 });
      await world.decide(await openApproval(world, title), "approve");
      expect(JSON.parse(await answer)).toEqual({ refunded: 5 });
    });

    test("gets the denial", async () => {
      const answer = client.call("orders_refund", { order: "ord_1", cents: 6 });
      await world.decide(await openApproval(world, title), "deny");
      expect(await answer).toContain("APPROVAL_DENIED");
    });

    test("is told that a call is pending, and the same call again gets its result", async () => {
      const call = () => impatient.call("orders_refund", { order: "ord_2", cents: 7 });
      expect(await call()).toContain("APPROVAL_REQUIRED");
      await hasty.decide(await openApproval(hasty, title), "approve");
      expect(JSON.parse(await call())).toEqual({ refunded: 7 });
    });

    test("cancels a call that waits, and disconnects: nothing runs", async () => {
      const cancelling = new AbortController();
      const leaving = await open(world);
      const answer = leaving.call("orders_refund", { order: "ord_3", cents: 8 }, cancelling.signal);
      const cancelled = answer.then(
        () => "answered",
        () => "cancelled",
      );
      const id = await openApproval(world, title);
      cancelling.abort();
      expect(await cancelled).toBe("cancelled");
      // Before 2026-07-28, clients only notify when they cancel; the connection tells the service.
      await leaving.close();
      await until("the call's line", () => world.entries().find(({ approval }) => approval?.id === id));
      await world.decide(id, "approve");
      expect(world.entries().some(({ approval, decision }) => approval?.id === id && decision === "ALLOWED")).toBe(
        false,
      );
    });

    test("gets a long result cut", async () => {
      const text = await client.call("reports_read", { characters: 200_000 });
      expect(text).toContain("The result was too long");
      expect(text.length).toBeLessThan(70_000);
    });

    test("is told that its call is pending when the service drains, and gets the result from the service that follows", async () => {
      const replaced = await new McpWorld().start();
      const token = await replaced.caller({ sub: title });
      // The address that stays when the service is replaced, as a load balancer's does. Meanwhile, requests wait.
      let isUp = Promise.resolve();
      const address = new TokenProxy({ token: async () => token, onRequest: () => isUp });
      address.target = replaced.url;
      const moved = await connect({ url: `${address.url}/mcp`, token });
      const call = () => moved.call("orders_refund", { order: "ord_4", cents: 9 });
      const answer = call();
      const id = await openApproval(replaced, title);
      isUp = replaced.stop().then(async () => {
        address.target = (await replaced.start()).url;
      });
      expect(await answer).toContain("APPROVAL_REQUIRED");
      await isUp;
      await replaced.decide(id, "approve");
      expect(JSON.parse(await call())).toEqual({ refunded: 9 });
      await moved.close();
      await address.close();
      await replaced.end();
    });
  });
}
