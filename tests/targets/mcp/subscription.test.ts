import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { Loose } from "../../support/asking-service.ts";
import { acknowledged, changed, events, ModernServer } from "./modern-server.ts";
import { codeOf, HostileWorld, hostileTool } from "./world.ts";

describe("the subscription to a server of 2026-07-28", () => {
  const world = new HostileWorld();
  const servers: ModernServer[] = [];
  const started = async (): Promise<ModernServer> => {
    const server = new ModernServer();
    servers.push(server);
    return server;
  };
  const quarantined = async (): Promise<readonly string[]> => (await world.health()).body.systems.hostile.quarantined;
  afterEach(async () => {
    await world.stop();
    for (const server of servers.splice(0)) await server.close();
  });
  afterAll(() => world.end());

  test("a changed definition is quarantined when the server announces it, and restored in the same way", async () => {
    const server = await started();
    await world.startWith([hostileTool("echo")], server.entry);
    expect((await world.call("echo")).http).toBe(200);
    await server.subscribed();
    server.change("Another");
    while ((await quarantined()).length === 0) await Bun.sleep(20);
    expect((await world.call("echo")).body.error).toMatchObject({ code: "TARGET_UNAVAILABLE", retryable: false });
    server.change("Does echo");
    while ((await quarantined()).length > 0) await Bun.sleep(20);
    expect((await world.call("echo")).body.result).toEqual({ text: "called" });
    const lines = world.journal().filter(({ type }) => type.startsWith("upstream."));
    expect(lines.map(({ type }) => type)).toEqual(["upstream.quarantined", "upstream.restored"]);
  });

  test("a server that does not announce changes gets no subscription", async () => {
    const server = await started();
    server.listChanged = false;
    await world.startWith([hostileTool("echo")], server.entry);
    expect((await world.call("echo")).http).toBe(200);
    expect((await world.call("echo")).http).toBe(200);
    expect(server.count("subscriptions/listen")).toBe(0);
  });

  test.each<[string, (message: Loose) => Response]>([
    ["an error", ({ id }) => Response.json({ jsonrpc: "2.0", id, error: { code: -32_601, message: "no" } })],
    ["status 404", () => new Response("no", { status: 404 })],
    ["status 401", () => new Response("no", { status: 401 })],
    ["an end without an acknowledgement", ({ id }) => events({ id, result: {} })],
    ["a stream without an answer", () => events(changed)],
    ["a page", () => new Response("<html>", { headers: { "content-type": "text/html" } })],
    [
      "an acknowledgement of nothing",
      ({ id }) =>
        events(
          { method: "notifications/subscriptions/acknowledged", params: { notifications: {} } },
          { id, result: {} },
        ),
    ],
    [
      "an acknowledgement that is no table",
      ({ id }) => events({ method: "notifications/subscriptions/acknowledged", params: [1] }, { id, result: {} }),
    ],
  ])("calls go on with a server that answers it with %s", async (_what, listen) => {
    const server = await started();
    server.listen = listen;
    await world.startWith([hostileTool("echo")], server.entry);
    expect((await world.call("echo")).http).toBe(200);
    await server.subscribed();
    expect((await world.call("echo")).http).toBe(200);
  });

  test("an endless stream of announcements ends its session, and calls go on in another", async () => {
    const server = await started();
    const chunk = Buffer.from(`data: ${JSON.stringify({ jsonrpc: "2.0", ...changed })}\n\n`.repeat(11_000));
    server.listen = () =>
      new Response(new ReadableStream({ pull: (controller) => controller.enqueue(chunk) }), {
        headers: { "content-type": "text/event-stream" },
      });
    await world.startWith([hostileTool("echo")], server.entry);
    for (let round = 0; round < 2; round += 1) {
      expect((await world.call("echo")).http).toBe(200);
      while ((await world.health()).body.systems.hostile.state === "connected") await Bun.sleep(20);
    }
    expect(server.count("tools/list")).toBeLessThan(100);
  });

  test("an answer over the limit on that stream ends only the subscription", async () => {
    const server = await started();
    server.listen = ({ id }) => events(acknowledged(id), { ...changed, params: { x: "x".repeat(2_000_000) } });
    await world.startWith([hostileTool("echo")], server.entry);
    expect((await world.call("echo")).http).toBe(200);
    await server.subscribed();
    expect((await world.call("echo")).http).toBe(200);
  });

  describe("of a program", () => {
    // Unconfined: the runtime looks for packages in every directory above the program.
    const unconfined = { confinement: "off" };
    const mcp = { command: process.execPath, args: [join(import.meta.dir, "modern-program.ts")] };

    test("a changed definition is quarantined", async () => {
      await world.startWith([hostileTool("echo")], mcp, unconfined);
      expect((await world.call("echo", "Another")).http).toBe(200);
      while ((await quarantined()).length === 0) await Bun.sleep(20);
    }, 60_000);

    test("an answer over the limit is too large, although the subscription is open too", async () => {
      await world.startWith([hostileTool("echo")], mcp, unconfined);
      expect(codeOf(await world.call("echo", "much"))).toBe("OUTPUT_TOO_LARGE");
    }, 60_000);
  });
});
