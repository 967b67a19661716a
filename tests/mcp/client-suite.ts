import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { defineTool } from "safe-tool-call";
import { z } from "zod";
import type { Loose } from "../support/asking-service.ts";
import { TokenProxy } from "../support/token-proxy.ts";
import { until } from "../support/until.ts";
import { McpWorld, TOOLS } from "./mcp-world.ts";

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

/** A change that runs until a test lets it end. */
function shipping({ onStart, end }: { readonly onStart: () => void; readonly end: Promise<void> }) {
  return defineTool({
    name: "orders_ship",
    description: "Ships an order",
    classification: "write",
    category: "write",
    permissions: { required: ["orders:refund"] },
    input: z.strictObject({ order: z.string() }),
    output: z.object({ shipped: z.string() }),
    outputPolicy: { shipped: "allow" },
    async handler({ order }) {
      onStart();
      await end;
      return { shipped: order };
    },
  });
}

interface TestedClient {
  readonly title: string;
  readonly connect: Connect;
  /** Whether it opens the stream of notifications, and keeps it. */
  readonly follows?: true;
}

/** What a client of any kind must be able to do, against the real service. */
export function testClients(clients: readonly TestedClient[]): void {
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

  describe.each(clients)("$title", ({ title, connect, follows = false }) => {
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

    test("loses no answer and repeats no change when the service is replaced", async () => {
      const [started, finish] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const tools = [...TOOLS, shipping({ onStart: started.resolve, end: finish.promise })];
      const replaced = await new McpWorld().start({ tools });
      const token = await replaced.caller({ sub: title });
      let isUp: Promise<void> = Promise.resolve();
      // The address that stays when the service is replaced, as a load balancer's does. Meanwhile, requests wait.
      const address = new TokenProxy({ token: () => isUp.then(() => token) });
      address.target = replaced.url;
      const client = await connect({ url: `${address.url}/mcp`, token });
      const streams = () => replaced.journal().filter(({ type }) => type === "tools.followed").length;
      try {
        if (follows) await until("the stream", () => (streams() === 1 ? true : undefined));
        const running = client.call("orders_ship", { order: "ord_1" });
        await replaced.decide(await openApproval(replaced, title), "approve");
        await started.promise;
        const call = () => client.call("orders_refund", { order: "ord_2", cents: 2 });
        const held = call();
        const id = await openApproval(replaced, title);

        isUp = replaced.stop().then(async () => {
          address.target = (await replaced.start({ tools })).url;
        });
        await until("the entry of the held call", () => replaced.entries().find(({ approval }) => approval?.id === id));
        finish.resolve();
        expect(await held).toContain(`APPROVAL_REQUIRED: A person is asked whether this call may run (approval ${id}`);
        expect(JSON.parse(await running)).toEqual({ shipped: "ord_1" });
        await isUp;

        await replaced.decide(id, "approve");
        expect(JSON.parse(await call())).toEqual({ refunded: 2 });
        const ran = replaced.entries().filter(({ decision }) => decision === "ALLOWED");
        expect(ran.map(({ tool }) => tool?.name)).toEqual(["orders_ship", "orders_refund"]);
        if (follows) await until("the next stream", () => (streams() === 2 ? true : undefined));
      } finally {
        finish.resolve();
        await client.close();
        await address.close();
        await replaced.end();
      }
    });
  });
}
