import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdirSync, rmdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fetchFile } from "../../src/bundles/client.ts";
import type { BundleServer } from "../../src/bundles/server.ts";
import { BundleFleet } from "../support/bundle-fleet.ts";
import { serveFleet } from "../support/bundle-member.ts";
import { Authority, type Pair } from "../support/tls-files.ts";

let fleet: BundleFleet;
let server: BundleServer;

beforeEach(() => {
  fleet = new BundleFleet();
  server = serveFleet(fleet);
});
afterEach(async () => {
  await server.close();
  fleet.end();
});

const ask = (path: string, init: RequestInit = {}): Promise<Response> => fetch(`${server.url}${path}`, init);
const bytesOf = async (answer: Response): Promise<string> => Buffer.from(await answer.arrayBuffer()).toString("base64");
const etagOf = async (path: string): Promise<string> => (await ask(path)).headers.get("etag") ?? "";

test("both files have a validator, with GET and HEAD", async () => {
  const { archive, timestamp } = fleet.publish({ version: 1 });
  for (const [path, bytes] of [
    ["bundle.tar.gz", archive],
    ["timestamp.json", timestamp],
  ] as const) {
    const got = await ask(path);
    expect(got.status).toBe(200);
    expect(await bytesOf(got)).toBe(bytes.toString("base64"));
    const head = await ask(path, { method: "HEAD" });
    expect(head.status).toBe(200);
    expect(head.headers.get("content-length")).toBe(String(bytes.length));
    expect(head.headers.get("etag")).toBe(got.headers.get("etag"));
  }
  expect((await ask("bundle.tar.gz")).headers.get("content-type")).toBe("application/vnd.openpolicyagent.bundles");
});

test("a known validator is answered with 304 at once, and without a promise to wait", async () => {
  fleet.publish({ version: 1 });
  const answer = await ask("timestamp.json", { headers: { "if-none-match": await etagOf("timestamp.json") } });
  expect(answer.status).toBe(304);
  expect(answer.headers.get("preference-applied")).toBeNull();
});

test("a request that waits is answered when its file changes, and not when the other one does", async () => {
  const first = fleet.publish({ version: 1 });
  const headers = { "if-none-match": await etagOf("timestamp.json"), prefer: "modes=snapshot;wait=60" };
  const waiting = ask("timestamp.json", { headers });
  const second = fleet.make({ version: 2, previous: first.digest });
  fleet.write("served/bundle.tar.gz", second.archive);
  // The server has seen the other file.
  expect(await bytesOf(await ask("bundle.tar.gz"))).toBe(second.archive.toString("base64"));
  fleet.write("served/timestamp.json", second.timestamp);
  const answer = await waiting;
  expect(answer.status).toBe(200);
  expect(answer.headers.get("preference-applied")).toBe("wait=60");
  expect(await bytesOf(answer)).toBe(second.timestamp.toString("base64"));
});

test("a request that waits gets 304 after its time", async () => {
  fleet.publish({ version: 1 });
  const headers = { "if-none-match": await etagOf("timestamp.json"), prefer: "wait=1" };
  const answer = await ask("timestamp.json", { headers });
  expect([answer.status, answer.headers.get("preference-applied")]).toEqual([304, "wait=1"]);
});

test.each([
  ["GET", "other", 404],
  ["GET", "../keys.pem", 404],
  ["GET", "%2e%2e/keys.pem", 404],
  ["GET", "", 404],
  ["POST", "bundle.tar.gz", 405],
  ["PUT", "timestamp.json", 405],
  ["DELETE", "timestamp.json", 405],
])("%s /%s: %i", async (method, path, status) => {
  fleet.publish({ version: 1 });
  expect((await ask(path, { method })).status).toBe(status);
});

test("without the files there is nothing, and later there is", async () => {
  expect((await ask("timestamp.json")).status).toBe(404);
  fleet.publish({ version: 1 });
  expect((await ask("timestamp.json")).status).toBe(200);
});

test("what is no file is not served, and the server goes on", async () => {
  const { archive } = fleet.publish({ version: 1 });
  rmSync(join(fleet.served, "bundle.tar.gz"));
  mkdirSync(join(fleet.served, "bundle.tar.gz"));
  expect((await ask("bundle.tar.gz")).status).toBe(404);
  expect((await ask("timestamp.json")).status).toBe(200);
  rmdirSync(join(fleet.served, "bundle.tar.gz"));
  fleet.write("served/bundle.tar.gz", archive);
  expect((await ask("bundle.tar.gz")).status).toBe(200);
});

test("with a token, nobody else gets the files", async () => {
  fleet.publish({ version: 1 });
  const guarded = serveFleet(fleet, { token: "right" });
  const url = new URL("bundle.tar.gz", guarded.url);
  const statusWith = async (token: string | undefined) => {
    const address = { url, credentials: () => ({ tls: undefined, token }) };
    return fetchFile(address, "bundle").then(
      ({ body }) => body?.length,
      (error: Error) => error.message,
    );
  };
  expect(await statusWith("right")).toBeGreaterThan(0);
  expect(await statusWith("wrong")).toBe("the server answered with status 401 for the bundle");
  expect(await statusWith(undefined)).toBe("the server answered with status 401 for the bundle");
  await guarded.close();
});

test("a body without an end is cut off", async () => {
  const endless = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () =>
      new Response(
        new ReadableStream({
          pull(controller) {
            controller.enqueue(new Uint8Array(1_048_576));
          },
        }),
      ),
  });
  const address = {
    url: new URL("bundle.tar.gz", endless.url),
    credentials: () => ({ tls: undefined, token: undefined }),
  };
  await expect(fetchFile(address, "bundle")).rejects.toThrow("the bundle cannot be fetched (too-large)");
  await endless.stop(true);
});

test("over TLS, members need a certificate of the fleet's authority", async () => {
  fleet.publish({ version: 1 });
  const authority = await Authority.create("fleet");
  const stranger = await Authority.create("stranger");
  const own = await authority.issue("server");
  const pem = (text: string): Buffer => Buffer.from(text);
  const secured = serveFleet(fleet, {
    tls: { cert: pem(own.cert), key: pem(own.key), ca: pem(authority.pem) },
  });
  const fetchAs = async (pair: Pair | undefined, root = authority.pem): Promise<number | string> => {
    const client = pair && { clientCert: pem(pair.cert), clientKey: pem(pair.key) };
    const credentials = () => ({ tls: { rootCert: pem(root), ...client }, token: undefined });
    const address = { url: new URL(`${secured.url}bundle.tar.gz`), credentials };
    return fetchFile(address, "bundle").then(
      ({ body }) => body?.length ?? 0,
      (error: Error) => error.message,
    );
  };
  expect(await fetchAs(await authority.issue("member"))).toBeGreaterThan(0);
  expect(await fetchAs(undefined)).toStartWith("the bundle cannot be fetched");
  expect(await fetchAs(await stranger.issue("member"))).toStartWith("the bundle cannot be fetched");
  expect(await fetchAs(await authority.issue("member"), stranger.pem)).toStartWith("the bundle cannot be fetched");
  await secured.close();
});
