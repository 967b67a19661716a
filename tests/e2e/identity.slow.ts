import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { StartupError } from "../../src/core/errors.ts";
import {
  CALL,
  callHeaders,
  emptyFolder,
  type IdentityStand,
  issuers,
  startIdentityService,
} from "../support/identity-service.ts";
import { Authority, type Pair, replaceFile } from "../support/tls-files.ts";
import { AGENTS_AUDIENCE, AGENTS_ISSUER, type Claims, issueToken, makeSigningKey } from "../support/tokens.ts";
import { until } from "../support/until.ts";

async function status(url: string, headers: Readonly<Record<string, string>>): Promise<number> {
  return (await fetch(`${url}/call`, { method: "POST", headers, body: CALL })).status;
}

function lines(folder: string): readonly Readonly<Record<string, unknown>>[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".jsonl"))
    .flatMap((name) => readFileSync(join(folder, name), "utf8").trim().split("\n"))
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
}

describe("revocations", () => {
  let stand: IdentityStand;
  const folder = emptyFolder();
  const put = (revoked: unknown): void => replaceFile(folder, "revoked.json", JSON.stringify({ revoked }));
  const operator = () => issuers.token({ kind: "operator", sub: "olga", permissions: ["metrics:read"] });

  async function operatorSees(): Promise<{ readonly revocations?: { readonly status: string } }> {
    const headers = { authorization: `Bearer ${await operator()}` };
    return (await fetch(`${stand.service.url}/readyz`, { headers })).json() as never;
  }

  beforeAll(async () => {
    put([]);
    stand = await startIdentityService({ folder, jwt: { revocationFile: "./revoked.json" } });
  });
  afterAll(() => stand.close());

  test("a revoked token is refused with the reason, and works again after the revocation ends", async () => {
    const { url } = stand.service;
    const headers = await callHeaders({ jti: "t-1" });
    expect(await status(url, headers)).toBe(200);
    put([{ issuer: AGENTS_ISSUER, jti: "t-1" }]);
    await until("the revocation to count", async () => ((await status(url, headers)) === 401 ? true : undefined));
    expect(await status(url, await callHeaders({ jti: "t-2" }))).toBe(200);
    const answer = await fetch(`${url}/call`, { method: "POST", headers, body: CALL });
    expect(answer.headers.get("www-authenticate")).toContain('error="invalid_token"');
    const { error } = (await answer.json()) as { readonly error: object };
    expect(error).toMatchObject({ code: "UNAUTHENTICATED", stage: "AUTH", details: { revokedBy: "jti" } });
    expect((await fetch(`${url}/tools`, { headers })).status).toBe(401);
    put([]);
    await until("the revocation to be over", async () => ((await status(url, headers)) === 200 ? true : undefined));
    const audited = lines(join(folder, "audit"));
    expect(audited).toContainEqual(
      expect.objectContaining({ denial: expect.objectContaining({ stage: "AUTH", details: { revokedBy: "jti" } }) }),
    );
    expect(audited).toContainEqual(expect.objectContaining({ type: "revocations.loaded", entries: 1 }));
  });

  test("one token by its hash, while it is in use", async () => {
    const { url } = stand.service;
    const token = await callHeaders();
    const hash = createHash("sha256")
      .update(token["authorization"]?.slice("Bearer ".length) ?? "")
      .digest("hex");
    expect(await status(url, token)).toBe(200);
    put([{ tokenSha256: hash }]);
    await until("the revocation to count", async () => ((await status(url, token)) === 401 ? true : undefined));
    put([]);
    await until("the revocation to be over", async () => ((await status(url, token)) === 200 ? true : undefined));
  });

  test("a broken or missing file: the previous list applies, and operators are notified", async () => {
    const { url } = stand.service;
    const revoked = await callHeaders({ jti: "gone" });
    put([{ issuer: AGENTS_ISSUER, jti: "gone" }]);
    await until("the revocation to count", async () => ((await status(url, revoked)) === 401 ? true : undefined));
    for (const spoil of [
      () => replaceFile(folder, "revoked.json", '{"revoked":['),
      () => replaceFile(folder, "revoked.json", ""),
      () => rmSync(join(folder, "revoked.json")),
    ]) {
      spoil();
      await until("a notification of the operators", async () =>
        (await operatorSees()).revocations?.status === "stale" ? true : undefined,
      );
      expect(await status(url, revoked)).toBe(401);
      expect(await status(url, await callHeaders())).toBe(200);
      const metrics = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${await operator()}` } });
      const text = await metrics.text();
      expect(text).toContain("stc_revocation_list_stale 1");
      expect(text).toContain("stc_revocation_entries 1");
      put([{ issuer: AGENTS_ISSUER, jti: "gone" }]);
      await until("a notification of the operators that the list is read again", async () =>
        (await operatorSees()).revocations?.status === "ok" ? true : undefined,
      );
    }
    expect(lines(join(folder, "audit"))).toContainEqual(expect.objectContaining({ type: "revocations.refused" }));
    // Nobody else learns how the list stands.
    expect(await (await fetch(`${url}/readyz`)).json()).toEqual({ status: "ready" });
  });

  test("a file behind symbolic links that are exchanged, as Kubernetes mounts it", async () => {
    const { url } = stand.service;
    const headers = await callHeaders({ jti: "linked" });
    writeFileSync(join(folder, "v2.json"), JSON.stringify({ revoked: [{ issuer: AGENTS_ISSUER, jti: "linked" }] }));
    symlinkSync("v2.json", join(folder, "link"));
    renameSync(join(folder, "link"), join(folder, "revoked.json"));
    await until("the revocation to count", async () => ((await status(url, headers)) === 401 ? true : undefined));
  });

  test("operators' tokens are revoked in the same way", async () => {
    const headers = { authorization: `Bearer ${await operator()}` };
    const get = async (): Promise<number> => (await fetch(`${stand.service.url}/metrics`, { headers })).status;
    expect(await get()).toBe(200);
    put([{ issuer: "https://people.test", subject: "olga" }]);
    await until("the revocation to count", async () => ((await get()) === 401 ? true : undefined));
  });

  test("a service whose list is missing or broken does not start", async () => {
    const other = emptyFolder();
    const start = () =>
      startIdentityService({ folder: other, jwt: { revocationFile: "./revoked.json" } }).catch(
        (error: unknown) => error,
      );
    const rows = [
      [undefined, "cannot be read (ENOENT)"],
      ["{", 'is not {"revoked"'],
      ['{"revoked":[{"jti":"x"}]}', 'is not {"revoked"'],
    ] as const;
    for (const [text, says] of rows) {
      if (text !== undefined) writeFileSync(join(other, "revoked.json"), text);
      const outcome = await start();
      expect(outcome).toBeInstanceOf(StartupError);
      expect(String(outcome)).toContain("jwt.revocationFile");
      expect(String(outcome)).toContain(says);
    }
    rmSync(other, { recursive: true, force: true });
  });
});

describe("service accounts, with the keys of an API server that requires authentication", () => {
  const cluster = "https://kubernetes.default.svc.cluster.local";
  const runner = "system:serviceaccount:agents:runner";
  const key = makeSigningKey("RS256", "cluster-1");
  const folder = emptyFolder();
  let authority: Authority;
  let server: Pair;
  let api: Bun.Server<undefined>;
  let asked: (string | null)[] = [];

  beforeAll(async () => {
    authority = await Authority.create("cluster");
    server = await authority.issue("kubernetes");
    api = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      tls: { cert: server.cert, key: server.key },
      fetch: ({ headers }) => {
        asked.push(headers.get("authorization"));
        if (headers.get("authorization") !== "Bearer token-2") return new Response("{}", { status: 401 });
        return Response.json({ keys: [key.jwk] });
      },
    });
    writeFileSync(join(folder, "ca.crt"), authority.pem);
    writeFileSync(join(folder, "token"), "token-1\n");
  });
  afterAll(async () => {
    await api.stop(true);
    rmSync(folder, { recursive: true, force: true });
  });

  const profile = (changes: object): object => ({
    issuer: cluster,
    profile: "kubernetes",
    algorithms: ["RS256"],
    jwksUri: `https://127.0.0.1:${api.port}/openid/v1/jwks`,
    subjectPermissions: { [runner]: ["self:read"] },
    ...changes,
  });

  async function headers(changes: Claims = {}): Promise<Record<string, string>> {
    const now = Math.floor(Date.now() / 1000);
    const named = {
      namespace: "agents",
      serviceaccount: { name: "runner", uid: "8a1f" },
      pod: { name: "p", uid: "1" },
    };
    const claims = { iss: cluster, aud: [AGENTS_AUDIENCE], sub: runner, iat: now, nbf: now, exp: now + 3_607 };
    const token = await issueToken(key, { ...claims, "kubernetes.io": named, ...changes }, { typ: undefined });
    return { authorization: `Bearer ${token}`, "content-type": "application/json" };
  }

  test("the API server's own certificates and a token that is read again", async () => {
    const named = { caFile: join(folder, "ca.crt"), tokenFile: join(folder, "token") };
    const stand = await startIdentityService({ jwt: { issuers: [profile(named)] } });
    const { url } = stand.service;
    // The first token is not good there: nobody can say whether the caller's is.
    expect(await status(url, await headers())).toBe(503);
    writeFileSync(join(folder, "token"), "token-2\n");
    await until("the keys to be asked for again", async () =>
      (await status(url, await headers())) === 200 ? true : undefined,
    );
    expect(asked).toContain("Bearer token-1");
    expect(await status(url, await headers({ sub: "system:serviceaccount:other:runner" }))).toBe(401);
    expect(await status(url, await headers({ aud: [cluster] }))).toBe(401);
    await stand.close();
  });

  test("without its certificates the API server is not trusted, and gets no token", async () => {
    asked = [];
    const stand = await startIdentityService({
      jwt: { issuers: [profile({ tokenFile: join(folder, "token") })] },
    });
    expect(await status(stand.service.url, await headers())).toBe(503);
    expect(asked).toEqual([]);
    await stand.close();
  });

  const mistakes: readonly (readonly [string, object, string])[] = [
    ["a file that is not there", { caFile: "./nowhere" }, "jwt.issuers[0].caFile: ./nowhere cannot be read (ENOENT)"],
    ["a token that is not there", { tokenFile: "./nowhere" }, "jwt.issuers[0].tokenFile: ./nowhere cannot be read"],
    [
      "a token for no server",
      { jwksUri: undefined, jwks: { keys: [key.jwk] }, tokenFile: "./token" },
      "tokenFile: is for the server of jwksUri",
    ],
    ["no table", { subjectPermissions: undefined }, "subjectPermissions: is missing"],
    ["a type of one's own", { typ: "JWT" }, "typ: the profile kubernetes says it already"],
    ["another kind", { profile: "k8s" }, "jwt.issuers[0].profile: must be one of generic, rfc9068, kubernetes"],
  ];
  test.each(mistakes.map((row) => [...row] as const))("%s does not start", async (_title, changes, says) => {
    const outcome = await startIdentityService({ jwt: { issuers: [profile(changes)] } }).catch(
      (error: unknown) => error,
    );
    expect(outcome).toBeInstanceOf(StartupError);
    expect(String(outcome)).toContain(says);
  });
});
