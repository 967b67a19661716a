import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect } from "node:tls";
import type { EndingWorld } from "../support/ending-world.ts";
import { FleetWorld } from "../support/fleet-world.ts";
import { Authority, replaceFile } from "../support/tls-files.ts";
import { until } from "../support/until.ts";

const TOKEN_MS = 6_000;

let fleet: FleetWorld;
let a: EndingWorld;
let b: EndingWorld;
beforeAll(async () => {
  fleet = await FleetWorld.start();
  [a, b] = await fleet.twoMembers();
}, 120_000);
afterAll(() => fleet.end());

/** SHA-256 of the certificate that members get. */
async function presented(): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const socket = connect({ host: "127.0.0.1", port: fleet.network.port, rejectUnauthorized: false }, () =>
    resolve(
      Buffer.from((socket.getPeerCertificate().fingerprint256 ?? "").replaceAll(":", ""), "hex").toString("base64url"),
    ),
  );
  socket.on("error", reject);
  return promise.finally(() => socket.destroy());
}

/** Returns the status of a call that asks: 202 when the hub has the request. The same one is asked again with the same key. */
const asked = async (member: EndingWorld, key: string) => (await fleet.call(member, "asked", key)).http;

test("a hub takes over a certificate of another authority, which its members have come to trust", async () => {
  const next = await Authority.create("next");
  for (const member of [a, b]) replaceFile(member.world.folder, "ca.pem", `${fleet.authority.pem}\n${next.pem}`);
  const pair = await next.issue("hub");
  replaceFile(fleet.hub.world.folder, "hub.crt", pair.cert);
  replaceFile(fleet.hub.world.folder, "hub.key", pair.key);
  await until("the new certificate", async () => ((await presented()) === pair.thumbprint ? true : undefined));
  // The members lose their connections, and trust the new certificate on the next ones.
  fleet.network.become("cut");
  fleet.network.heal();
  for (const member of [a, b]) {
    await until("a call", async () => ((await asked(member, "hub")) === 202 ? true : undefined));
  }
}, 90_000);

test("a member whose certificate is replaced goes on under the name in the new one", async () => {
  const names = [{ type: "url" as const, value: "spiffe://acme.test/agents/renamed" }];
  const pair = await fleet.authority.issue("renamed", { names });
  replaceFile(a.world.folder, "member.crt", pair.cert);
  replaceFile(a.world.folder, "member.key", pair.key);
  await until("a request under the new name", async () => {
    expect(await asked(a, "member")).toBe(202);
    const { body } = await fleet.send(fleet.hub, "GET", "/members");
    return body.members.some(({ name }: { name: string }) => name.endsWith("/renamed")) || undefined;
  });
}, 90_000);

test("a member whose token is replaced goes on after the former one has expired", async () => {
  const tokenEndsAt = Math.ceil((Date.now() + TOKEN_MS) / 1_000) * 1_000;
  replaceFile(b.world.folder, "token", await fleet.token({ expires: new Date(tokenEndsAt) }));
  expect(await asked(b, "short")).toBe(202);
  replaceFile(b.world.folder, "token", await fleet.token());
  await until("the end of the former token", () => (Date.now() > tokenEndsAt + 1_000 ? true : undefined));
  await fleet.connected("agent-b@");
  expect(await asked(b, "long")).toBe(202);
}, 90_000);
