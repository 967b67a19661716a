import { afterAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Reply } from "../../support/asking-service.ts";
import { codeOf, ended, HostileWorld, hostileTool, isAlive, textOf } from "./world.ts";

describe("limits of a server", () => {
  const world = new HostileWorld();
  afterAll(() => world.end());

  /** Calls again when the other caller's call was first. */
  async function hang(token: string): Promise<Reply> {
    const reply = await world.call("hang", "x", { token });
    return codeOf(reply) === "OVERLOADED" ? hang(token) : reply;
  }

  test("callers share one process when the server is stateless", async () => {
    await world.start([hostileTool("who")], { stateless: true });
    const mine = textOf(await world.call("who"));
    expect(textOf(await world.call("who", "x", { token: await world.agent({ sub: "agent-8" }) }))).toBe(mine);
    await world.stop();
  });

  test("the session that is unused for longest makes room; without one the call is refused", async () => {
    await world.start([hostileTool("who"), hostileTool("hang", { timeoutMs: 4_000 })], { sessionsMax: 1 });
    const mine = Number(textOf(await world.call("who")));
    const other = await world.agent({ sub: "agent-8" });
    const theirs = Number(textOf(await world.call("who", "x", { token: other })));
    await ended(mine);
    expect(isAlive(theirs)).toBe(true);
    const hanging = hang(other);
    let refused = await world.call("who");
    while (codeOf(refused) === undefined) {
      // The hanging call had not arrived yet; the other caller's process starts again.
      refused = await world.call("who");
    }
    expect(refused.body.error).toMatchObject({ code: "OVERLOADED", retryable: true });
    expect(codeOf(await hanging)).toBe("DEADLINE_EXCEEDED");
    await world.stop();
  });

  test("a server that no longer reads or answers is ended after a late call", async () => {
    await world.start([hostileTool("who"), hostileTool("forever", { timeoutMs: 1_500 })]);
    const pid = Number(textOf(await world.call("who")));
    expect(codeOf(await world.call("forever"))).toBe("DEADLINE_EXCEEDED");
    await ended(pid);
    expect(textOf(await world.call("who"))).not.toBe(`${pid}`);
    await world.stop();
  });

  test("the program gets the value of a variable from its file", async () => {
    writeFileSync(join(world.folder, "token"), "the-value\n");
    await world.start([hostileTool("looks_around")], { secretEnv: [{ name: "TOKEN", valueFile: "token" }] });
    const seen = JSON.parse(textOf(await world.call("looks_around")));
    expect(seen.names).toContain("TOKEN");
    expect(seen.token).toBe("eulav-eht");
    await world.stop();
  });

  test("a tool's error text is released only where the manifest says so, filtered", async () => {
    await world.start([hostileTool("is_error", { filtered: true })]);
    const { error } = (await world.call("is_error")).body;
    expect(error).toMatchObject({ code: "TARGET_FAILED", details: { untrusted: true } });
    expect(error.details.message).toContain("no such order");
    expect(error.details.message).not.toMatch(/passwd|hunter2/);
    await world.stop();
  });

  test("text that is JSON can be governed field by field", async () => {
    await world.start([hostileTool("json", { result: "json" })]);
    const reply = await world.call("json", '{"name":"Ann","iban":"x"}');
    expect(reply.body.result).toEqual({ name: "Ann" });
    expect(codeOf(await world.call("json", "no JSON"))).toBe("INVALID_OUTPUT");
    await world.stop();
  });

  test("a server without confinement, where the configuration says so, ends with everything that it started", async () => {
    const mcp = world.serverEntry();
    await world.startWith([hostileTool("spawns"), hostileTool("looks_around")], mcp, { confinement: "off" });
    const seen = JSON.parse(textOf(await world.call("looks_around")));
    expect(seen.names).not.toContain("STC_CONFIG");
    const child = Number(textOf(await world.call("spawns")));
    expect(isAlive(child)).toBe(true);
    await world.stop();
    await ended(child);
  });

  test("a session without calls ends", async () => {
    await world.start([hostileTool("who")], { idleSeconds: 1 });
    await ended(Number(textOf(await world.call("who"))));
    expect((await world.health()).body.systems.hostile).toMatchObject({ state: "idle", sessions: 0, quarantined: [] });
    await world.stop();
  });

  test("a server that cannot start affects its own tools only", async () => {
    world.tell("dies", "");
    await world.start([hostileTool("echo")]);
    const reply = await world.call("echo");
    expect(reply.body.error).toMatchObject({ code: "TARGET_UNAVAILABLE", retryable: true });
    expect((await world.health()).body.systems.hostile.state).toBe("failed");
    world.untell("dies");
    await world.stop();
    await world.start([hostileTool("echo")]);
    expect(textOf(await world.call("echo"))).toBe("hello");
  });
});
