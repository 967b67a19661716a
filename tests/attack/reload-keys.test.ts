import { afterEach, beforeEach, expect, test } from "bun:test";
import { type JwksServer, publish, startJwksServer } from "../support/jwks-server.ts";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { makeSigningKey } from "../support/tokens.ts";

/** An identity provider, and a service that fetches the agents' keys from it. */
let provider: JwksServer;
let service: ReloadService;

beforeEach(async () => {
  provider = await startJwksServer();
  service = new ReloadService();
  provider.answer = publish(service.issuers.agents);
  service.configure(issuersAt(provider.url));
  await service.start();
});
afterEach(async () => {
  provider.close();
  await service.end();
});

function issuersAt(jwksUri: string) {
  const [agents, operators] = service.issuers.profiles();
  const { jwks: _, ...rest } = agents ?? {};
  return { jwt: { issuers: [{ ...rest, jwksUri }, operators] } };
}

async function reloaded(says: string): Promise<void> {
  service.write("tools/hello.ts", manifest({ says }));
  expect((await service.reload()).http).toBe(200);
}

const outages: readonly (readonly [string, JwksServer["answer"] | undefined])[] = [
  ["refuses connections", undefined],
  ["answers 500", (response) => response.writeHead(500).end()],
  ["answers nonsense", (response) => response.end("<html>")],
];

test.each(outages)(
  "an identity provider that %s at a reload does not lock callers out, however often",
  async (_, answer) => {
    expect(await service.says()).toBe("first");
    if (answer === undefined) provider.close();
    else provider.answer = answer;
    await reloaded("second");
    expect(await service.says()).toBe("second");
    // The generation between, which nobody called, hands on what it was handed.
    await reloaded("third");
    await reloaded("fourth");
    expect(await service.says()).toBe("fourth");
  },
);

test("keys are fetched again after a reload: a withdrawn key ends there", async () => {
  expect(await service.says()).toBe("first");
  const next = makeSigningKey("ES256", "agents-2");
  provider.answer = publish(next);
  await reloaded("second");
  expect(await service.says()).toBe("UNAUTHENTICATED");
});

test("keys of another URL are not used", async () => {
  expect(await service.says()).toBe("first");
  const { url } = provider;
  provider.answer = (response) => response.writeHead(500).end();
  service.configure(issuersAt(`${url}?other`));
  expect((await service.reload()).http).toBe(200);
  expect(await service.says()).toBe("AUTH_UNAVAILABLE");
  // Nor are they there again when the old URL is: that reload began with nothing.
  service.configure(issuersAt(url));
  expect((await service.reload()).http).toBe(200);
  expect(await service.says()).toBe("AUTH_UNAVAILABLE");
});
