import { expect, test } from "bun:test";
import { acknowledged, events, ModernServer } from "./modern-server.ts";
import { HostileWorld, hostileTool } from "./world.ts";

test("a subscription that ended is made again, and the definitions are read: changes meanwhile were not announced", async () => {
  const world = new HostileWorld();
  const server = new ModernServer();
  try {
    server.listen = ({ id }) => {
      // The first one ends at once; the second one is the official server's.
      server.listen = undefined;
      return events(acknowledged(id));
    };
    await world.startWith([hostileTool("echo")], { ...server.entry, stateless: true });
    expect((await world.call("echo")).http).toBe(200);
    server.description = "Another";
    await server.subscribed(2);
    while ((await world.health()).body.systems.hostile.quarantined.length === 0) await Bun.sleep(20);
    server.change("Does echo");
    while ((await world.health()).body.systems.hostile.quarantined.length > 0) await Bun.sleep(20);
    expect((await world.call("echo")).http).toBe(200);
    expect(server.count("tools/list")).toBeGreaterThan(2);
  } finally {
    await world.end();
    await server.close();
  }
}, 60_000);
