import { afterAll, beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { ReloadService } from "../support/reload-service.ts";
import { Authority, hence, replaceFile } from "../support/tls-files.ts";
import { until } from "../support/until.ts";

const DAY_MS = 86_400_000;
const stand = new ReloadService();
let authority: Authority;
let first: Date;

/** Certificates have whole seconds. */
const inDays = (days: number): Date => new Date(Math.floor(hence(days * DAY_MS).getTime() / 1_000) * 1_000);
const place = (name: string): string => join(stand.folder, name);

beforeAll(async () => {
  authority = await Authority.create("servers");
  first = inDays(30);
  const { cert, key } = await authority.issue("service", { notAfter: first });
  writeFileSync(place("server.pem"), cert);
  writeFileSync(place("server-key.pem"), key);
  writeFileSync(place("clients.pem"), authority.pem);
  stand.configure({
    server: {
      port: 0,
      socket: "./run.sock",
      tls: { certFile: "./server.pem", keyFile: "./server-key.pem", clientCaFile: "./clients.pem" },
      console: { port: 0 },
      operator: { port: 0 },
    },
  });
  await stand.start();
});
afterAll(() => stand.end());

async function listeners() {
  const headers = { authorization: `Bearer ${await stand.operator(["metrics:read"])}` };
  const answer = await fetch(`${stand.running.consoleUrl}/systems`, { headers });
  const { listeners: shown } = (await answer.json()) as { readonly listeners: readonly Record<string, unknown>[] };
  return shown;
}

test("each listener shows its addresses and TLS, and no path", async () => {
  const { url, consoleUrl, operatorUrl } = stand.running;
  const plain = { tls: "none", clientCertificates: "none", certificateExpiresAt: null };
  const shown = await listeners();
  expect(shown).toEqual([
    {
      ...{ listener: "agents", addresses: [url, "Unix socket"], tls: "server", clientCertificates: "accepted" },
      certificateExpiresAt: first.toISOString(),
    },
    { listener: "console", addresses: [consoleUrl], ...plain },
    { listener: "operators", addresses: [operatorUrl], ...plain },
  ]);
  expect(JSON.stringify(shown)).not.toContain(stand.folder);
});

test("the expiry is that of the certificate in use, also after a renewal", async () => {
  const expiry = async (): Promise<unknown> => (await listeners())[0]?.["certificateExpiresAt"];
  expect(await expiry()).toBe(first.toISOString());
  const second = inDays(60);
  const { cert, key } = await authority.issue("service", { notAfter: second });
  replaceFile(stand.folder, "server-key.pem", key);
  replaceFile(stand.folder, "server.pem", cert);
  await until("the renewed one", async () => ((await expiry()) === second.toISOString() ? true : undefined));
});
