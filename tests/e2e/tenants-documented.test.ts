import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SignJWT } from "jose";
import { parse } from "yaml";
import { AskingService, type Loose, type Reply } from "../support/asking-service.ts";
import { readConfigFile } from "../support/build.ts";
import { blockNamed } from "../support/documented.ts";
import { type Ended, runStc } from "../support/stc.ts";
import { makeSigningKey } from "../support/tokens.ts";
import { PROJECT } from "../support/world.ts";

const EXAMPLE = join(PROJECT, "docs/examples/tenants");
const PAGE = "docs/tenants.md";
const LOGIN = "https://login.example.com/";
const PLATFORM = "https://platform.example.com/";

/** The example's service, with keys of the test and systems on this machine. */
class ExampleService extends AskingService {
  readonly key = makeSigningKey("ES256", "login-1");
  readonly #systems = ["acme", "globex"].map((name) =>
    Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => Response.json({ state: `sent by ${name}` }) }),
  );

  async start(): Promise<void> {
    cpSync(join(EXAMPLE, "tools"), join(this.folder, "tools"), { recursive: true });
    const { jwt, tenants, audit: _, ...rest } = parse(readFileSync(join(EXAMPLE, "stc.yaml"), "utf8"));
    const issuers = jwt.issuers.map(({ jwksUri: _uri, ...issuer }: Loose) => ({
      ...issuer,
      jwks: { keys: [this.key.jwk] },
    }));
    for (const [at, own] of Object.values<Loose>(tenants).entries()) {
      const { port } = this.#systems[at] ?? {};
      own.systems.orders.http = { baseUrl: `http://127.0.0.1:${port}`, addresses: ["loopback"] };
    }
    await this.run({ ...rest, jwt: { issuers }, tenants });
    await this.signIn(PLATFORM);
  }

  /** The commands are those of an operator of this issuer from now on. */
  async signIn(issuer: string, claims: Readonly<Record<string, unknown>> = {}): Promise<void> {
    const permissions = ["tenants:read", "halts:read", "halts:write"];
    const operator = await this.token(issuer, { permissions, ...claims });
    writeFileSync(join(this.folder, "token"), operator, { mode: 0o600 });
  }

  token(issuer: string, claims: Readonly<Record<string, unknown>>, audience = "safe-tool-call-operators") {
    return new SignJWT({ sub: "olga", ...claims })
      .setProtectedHeader({ alg: this.key.alg, kid: this.key.kid, typ: "JWT" })
      .setIssuer(issuer)
      .setAudience(audience)
      .setIssuedAt("1 second ago")
      .setExpirationTime("10 minutes")
      .sign(this.key.privateKey);
  }

  async call(claims: Readonly<Record<string, unknown>>): Promise<Reply> {
    const token = await this.token(LOGIN, { permissions: ["orders:read"], ...claims }, "safe-tool-call");
    return this.send("POST", "/call", { token, body: { tool: "get_order", args: { order: "A-7" } } });
  }

  stc(...words: readonly string[]): Promise<Ended> {
    return runStc(words, { env: { STC_URL: this.url, STC_TOKEN_FILE: join(this.folder, "token") } });
  }

  override async end(): Promise<void> {
    await super.end();
    await Promise.all(this.#systems.map((system) => system.stop(true)));
  }
}

test("the page shows the example's configuration, which is valid", () => {
  const path = join(EXAMPLE, "stc.yaml");
  expect(Object.keys(readConfigFile(path, {}).tenants ?? {})).toEqual(["acme", "globex"]);
  expect(parse(blockNamed(`${PAGE}: tools: []`).text)).toEqual(parse(readFileSync(path, "utf8")));
  const tool = readFileSync(join(EXAMPLE, "tools/get-order.tool.yaml"), "utf8");
  expect(parse(blockNamed(`${PAGE}: # yaml-language-server`).text)).toEqual(parse(tool));
});

describe("the example with tenants", () => {
  const service = new ExampleService();
  beforeAll(() => service.start());
  afterAll(() => service.end());

  test("the claim says which tenant's system answers; without one, and with another, it is 401", async () => {
    expect((await service.call({ tenant: "acme" })).body.result).toEqual({ state: "sent by acme" });
    expect((await service.call({ tenant: "globex" })).body.result).toEqual({ state: "sent by globex" });
    for (const claims of [{}, { tenant: "initech" }, { tenant: ["acme"] }]) {
      const { http, body } = await service.call(claims);
      expect([http, body.error.code]).toEqual([401, "UNAUTHENTICATED"]);
      expect(JSON.stringify(body)).not.toMatch(/acme|globex/);
    }
  });

  test("the commands of the page list the tenants, halt one of them, list the halt and lift it", async () => {
    const [list = "", halt = "", halts = "", resume = ""] = blockNamed(`${PAGE}: stc tenants`).text.trim().split("\n");
    expect([list, halts, resume.split(" ").slice(0, 2)]).toEqual(["stc tenants", "stc halts", ["stc", "resume"]]);
    const [, tenant = "", reason = ""] = /^stc halt --tenant (\S+) --reason "(.*)"$/.exec(halt) ?? [];
    const before = await service.stc("tenants");
    expect([before.code, before.err]).toEqual([0, ""]);
    expect(before.out).toMatch(/^acme +open +1 +0 +ok +-$/m);
    const set = await service.stc("halt", "--tenant", tenant, "--reason", reason);
    expect([set.code, set.err, set.out.split("\n")[0]]).toEqual([0, "", `halted: all calls of tenant ${tenant}`]);
    expect((await service.call({ tenant })).body.error.code).toBe("HALTED");
    expect((await service.call({ tenant: "globex" })).http).toBe(200);
    expect((await service.stc("tenants")).out).toMatch(/^acme +halted /m);
    const listed = await service.stc("halts");
    for (const shown of [`all calls of tenant ${tenant}`, reason, "olga"]) expect(listed.out).toContain(shown);
    const id = /^id: (\S+)$/m.exec(set.out)?.[1] ?? "";
    // The tenant's operators see it, and cannot lift it.
    await service.signIn(LOGIN, { tenant });
    const seen = await service.stc("halts");
    expect(seen.out.split("\n")[1]).toMatch(
      new RegExp(`^${id} +all calls +- +\\S+ +the service's operators +${reason}$`),
    );
    expect(await service.stc("resume", id)).toMatchObject({
      code: 1,
      err: expect.stringContaining("only they can lift"),
    });
    await service.signIn(LOGIN, { tenant: "globex" });
    expect((await service.stc("halts")).out).not.toContain(id);
    await service.signIn(PLATFORM);
    expect((await service.stc("resume", id)).out).toBe(`lifted: ${id}\n`);
    expect((await service.call({ tenant })).http).toBe(200);
  });

  test("the commands of the page verify the log of a tenant alone, with its own key", async () => {
    const commands = blockNamed(`${PAGE}: stc audit keys`).text.trim();
    const [keys = "", verify = ""] = commands.replaceAll("audit-logs", join(service.folder, "audit")).split("\n");
    const [print = "", file = ""] = keys.split(" > ");
    await service.stop();
    const printed = await runStc(print.split(" ").slice(1));
    expect([printed.code, printed.err]).toEqual([0, ""]);
    writeFileSync(join(service.folder, file), printed.out);
    const verified = await runStc(verify.replace(file, join(service.folder, file)).split(" ").slice(1));
    expect([verified.code, verified.err]).toEqual([0, ""]);
    expect(verified.out.trim().split("\n").at(-1)).toBe("ok");
  });
});
