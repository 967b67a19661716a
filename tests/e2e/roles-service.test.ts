import { afterAll, afterEach, beforeAll, describe, expect, setSystemTime, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { defineTool, SafeToolCall, type ToolCallResult } from "../../src/index.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { runStc } from "../support/stc.ts";

describe("roles of a running service", () => {
  const stand = new ReloadService();
  const roles = { greeter: { tools: ["hello"] } };
  const bindings = [{ role: "greeter", group: "greeters" }];
  let token: string;

  beforeAll(async () => {
    stand.configure({ roles, bindings });
    await stand.start();
    token = await stand.issuers.token({
      ...{ kind: "good", sub: "agent-9", permissions: [] },
      claims: { groups: ["greeters"] },
    });
  });
  afterAll(() => stand.end());

  test("end for a caller with a cached token when a reload removes its binding, and come back with it", async () => {
    expect([await stand.says({}, token), await stand.says({}, token)]).toEqual(["first", "first"]);
    stand.configure({ roles, bindings: [{ role: "greeter", group: "others" }] });
    expect((await stand.reload()).body).toMatchObject({ status: "changed" });
    expect(await stand.says({}, token)).toBe("PERMISSION_DENIED");
    stand.configure({ roles, bindings });
    await stand.reload();
    expect(await stand.says({}, token)).toBe("first");
  });

  test("give what their tools require after a reload", async () => {
    stand.write("tools/hello.ts", manifest({ permission: "hello:shout", says: "second" }));
    await stand.reload();
    expect(await stand.says({}, token)).toBe("second");
  });

  test("stay as they were when a reload is refused", async () => {
    stand.configure({ roles, bindings: [{ role: "greter", group: "others" }] });
    const { http, body } = await stand.reload();
    expect([http, JSON.stringify(body)]).toEqual([
      422,
      expect.stringContaining("bindings[0].role: greter is not in roles; did you mean greeter?"),
    ]);
    expect(await stand.says({}, token)).toBe("second");
  });

  test("list the tools that they open", async () => {
    const { body } = await stand.send("GET", "/tools", { token });
    expect(body.tools.map(({ name }: { readonly name: string }) => name)).toEqual(["hello"]);
    const details = await stand.send("GET", "/catalog/hello", { token: await stand.operator(["tools:read"]) });
    expect(details.body.callers).toEqual({ subjects: [], certificates: [], roles: ["greeter"] });
  });
});

describe("a binding that ends while an approver thinks", () => {
  const issuers = new LiveIssuers();
  const folder = mkdtempSync(join(tmpdir(), "stc-roles-"));
  let deeds = 0;
  const send = defineTool({
    ...({ name: "send", description: "Sends an amount", classification: "write", category: "network" } as const),
    permissions: {
      required: ["money:send"],
      elevatedIf: { when: ({ amount }: { readonly amount: number }) => amount > 100, required: ["money:large"] },
    },
    input: z.strictObject({ amount: z.int().min(1).max(1_000) }),
    ...{ output: z.object({}), outputPolicy: {} },
    handler: () => {
      deeds += 1;
      return {};
    },
  });
  let stc: SafeToolCall | undefined;
  afterEach(async () => {
    setSystemTime();
    await stc?.close();
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  async function callEnding(role: object, answer: object): Promise<ToolCallResult> {
    const until = new Date(Date.now() + 60_000);
    const config = {
      ...{ tools: [send], folder, audit: { dir: join(folder, `audit-${deeds}-${until.getTime()}`) } },
      ...{ jwt: { issuers: issuers.profiles() }, roles: { ending: role } },
      bindings: [{ role: "ending", subject: "agent-7", until: until.toISOString() }],
      onToolApprove: async () => {
        setSystemTime(until);
        return answer;
      },
    };
    stc = SafeToolCall.create(config as never);
    const permissions = "tools" in role ? [] : ["money:send"];
    return stc.call("send", { amount: 7 }, await issuers.token({ kind: "good", sub: "agent-7", permissions }));
  }

  test("refuses the call", async () => {
    const before = deeds;
    const result = await callEnding({ tools: ["send"] }, { approved: true });
    expect([result, deeds]).toEqual([
      expect.objectContaining({ error: expect.objectContaining({ code: "PERMISSION_DENIED" }) }),
      before,
    ]);
  });

  test("refuses arguments of the approver that would have needed it", async () => {
    const before = deeds;
    const result = await callEnding({ permissions: ["money:large"] }, { approved: true, params: { amount: 500 } });
    expect([result, deeds]).toEqual([
      expect.objectContaining({ error: expect.objectContaining({ code: "PERMISSION_DENIED" }) }),
      before,
    ]);
  });

  test("does not matter to a call that needs nothing of it", async () => {
    const before = deeds;
    expect([(await callEnding({ permissions: ["other"] }, { approved: true })).status, deeds]).toEqual([
      "success",
      before + 1,
    ]);
  });
});

describe("stc access export", () => {
  const folder = mkdtempSync(join(tmpdir(), "stc-access-"));
  const file = join(folder, "stc.yaml");
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  beforeAll(() => {
    writeFileSync(join(folder, "hello.ts"), manifest());
    const [agents, people] = new LiveIssuers().profiles();
    const written = {
      ...{ tools: ["./hello.ts"], audit: { dir: "./audit" }, jwt: { issuers: [agents, people] } },
      roles: { greeter: { tools: ["hello"] }, "reader.1": { permissions: ["audit:read"] } },
      bindings: [
        { role: "greeter", group: '=HYPERLINK("http://evil.example")' },
        { role: "greeter", claim: { team: "@a,b" } },
        { role: "reader.1", issuer: people?.["issuer"], subject: "-ann", until: "2030-01-01T00:00:00Z" },
      ],
    };
    writeFileSync(file, JSON.stringify(written));
  });

  test("prints JSON that is the same every time", async () => {
    const [one, other] = await Promise.all([1, 2].map(() => runStc(["access", "export", "--config", file])));
    expect([one?.code, one?.err, one?.out]).toEqual([0, "", other?.out]);
    const { access } = JSON.parse(one?.out ?? "") as { readonly access: readonly Record<string, unknown>[] };
    expect(access.map(({ source, role, tools }) => [source, role, tools])).toEqual([
      ["binding", "greeter", ["hello"]],
      ["binding", "greeter", ["hello"]],
      ["token", undefined, []],
      ["binding", "reader.1", []],
      ["token", undefined, []],
    ]);
  });

  test("prints CSV in which nothing is a formula, a line for each tool", async () => {
    const { code, out } = await runStc(["access", "export", "--format", "csv", "--config", file]);
    const issuer = '"https://idp.test"';
    const until = '"2030-01-01T00:00:00.000Z"';
    expect([code, out.trimEnd().split("\n")]).toEqual([
      0,
      [
        "audience,issuer,source,binding,subject,group,claim,spiffeId,role,until,permissions,tool,elevated",
        `"agents",${issuer},"binding",1,,,"{""team"":""@a,b""}",,"greeter",,"hello:say","hello","no"`,
        `"agents",${issuer},"binding",0,,"'=HYPERLINK(""http://evil.example"")",,,"greeter",,"hello:say","hello","no"`,
        `"agents",${issuer},"token",,,,,,,,"whatever the issuer puts into permissions",,`,
        `"operators","https://people.test","binding",2,"'-ann",,,,"reader.1",${until},"audit:read",,`,
        `"operators","https://people.test","token",,,,,,,,"whatever the issuer puts into permissions",,`,
      ],
    ]);
  });

  test("prints nothing of a configuration that would not start", async () => {
    const { code, out, err } = await runStc(["access", "export", "--config", join(folder, "missing.yaml")]);
    expect([code, out]).toEqual([78, ""]);
    expect(err).toContain("missing.yaml");
  });
});
