import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { decodeJwt } from "jose";
import { type Ended, runStc } from "../../support/stc.ts";
import { FIRST, question, StandInApprovals, view } from "../../support/terminal-approvals.ts";

const STEERING = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]/;
const DIGEST = question()["viewDigest"];

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "stc-approvals-"));
  writeFileSync(join(folder, "token"), "operator.token.x\n");
  // What a repository may hold that an operator stands in.
  writeFileSync(join(folder, ".env"), "STC_URL=http://127.0.0.1:9\nSTC_TOKEN_FILE=evil\n");
  writeFileSync(join(folder, "bunfig.toml"), 'preload = ["./evil.ts"]\n');
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** One command against a service of its own, in a folder that is not to be trusted. */
async function operate(args: readonly string[], set: (service: StandInApprovals) => void = () => {}) {
  const service = new StandInApprovals();
  service.add(question());
  set(service);
  const env = { STC_URL: service.url, STC_TOKEN_FILE: join(folder, "token") };
  const ended = await runStc(args, { env, cwd: folder });
  await service.close();
  expect(ended.out + ended.err).not.toMatch(STEERING);
  return { ...ended, sent: service.decisions.map(({ body }) => body), requests: service.requests };
}

describe.concurrent("stc approvals", () => {
  test("list: for people, and for programs", async () => {
    const people = await operate(["approvals", "list"]);
    expect(people).toMatchObject({ code: 0, err: "" });
    expect(people.out).toMatch(/^ID +STATE +RISK +TOOL +REQUESTER +TIME LEFT +SUMMARY +WILL RUN\n/);
    expect(people.out).toMatch(
      new RegExp(`^${FIRST} +pending +medium +set_limit +agent-7 +(9 min \\d+ s|10 min \\d s) +set_limit on`, "m"),
    );
    const programs = await operate(["approvals", "list", "--state", "pending", "--json"]);
    expect(programs.requests).toEqual(["GET /approvals?limit=200&state=pending"]);
    expect(JSON.parse(programs.out)).toMatchObject({ approvals: [{ id: FIRST, version: 1 }] });
  });

  test("list: what will run, in one line, which no text from outside can leave", async () => {
    const headline = { does: "Runs", what: "git push\nfake  row \u202e", more: "2 more lines" };
    const listed = await operate(["approvals", "list"], (service) => service.add(question({ headline })));
    expect(listed.out).toMatch(/ledger.* Runs git push\\u\{a\}fake⟦2 spaces⟧row \\u\{202e\} \(2 more lines\)\n$/);
  });

  test("APR-33: what is missing, who has approved, and why one may not", async () => {
    const stages = [
      { name: "team", state: "complete", have: 1, needed: 1, voters: [{ sub: "an\u202ena", iss: "i" }] },
      { name: "secops", state: "open", have: 1, needed: 2, voters: [{ sub: "bert", iss: "i" }] },
    ];
    const missing = [{ policy: "prod", stage: "secops", have: 1, needed: 2 }];
    const quorum = { reasonRequired: "always", policies: [{ name: "prod", stages }], missing };
    const because = "Policy prod, stage secops, wants a token that holds secops.";
    const set = (service: StandInApprovals) =>
      service.add(question({ quorum, decidable: false, canDecide: { because } }));
    const listed = await operate(["approvals", "list"], set);
    expect(listed.out).toMatch(
      /^ID .* TIME LEFT +MISSING +SUMMARY +WILL RUN\n.* s +prod, secops: 1 of 2 +set_limit on ledger/,
    );
    const { out } = await operate(["approvals", "show", FIRST], set);
    expect(out).toContain('policy          prod, team: 1 of 1, complete ("an\\u{202e}na")\n');
    expect(out).toContain('policy          prod, secops: 1 of 2, open ("bert")\n');
    expect(out).toContain("reason required always\n");
    expect(out).toContain(`cannot decide   ${because}\n`);
    const approved = await operate(["approvals", "approve", FIRST, "--view-digest", String(DIGEST)], (service) => {
      set(service);
      service.counted = { quorum };
    });
    expect(approved).toMatchObject({ code: 0, out: `counted: ${FIRST} still needs prod, secops: 1 of 2\n` });
  });

  test("APR-25: an approval with an answer", async () => {
    const set = (service: StandInApprovals) => service.add(question({ answer: { choices: ["blue", "gr\u001been"] } }));
    const { out } = await operate(["approvals", "show", FIRST], set);
    expect(out).toContain('answer with:\n  [0] "blue"\n  [1] "gr\\u{1b}een"');
    const free = await operate(["approvals", "show", FIRST], (service) => service.add(question({ answer: {} })));
    expect(free.out).toContain("answer          required\n");
    const choices = ["blue", "green"];
    const given = question({ answer: { choices }, view: view({ arguments: { choices } }) });
    const once = await operate(["approvals", "show", FIRST], (service) => service.add(given));
    expect(once.out.match(/"blue"/g)).toHaveLength(1);
    const approved = await operate(
      ["approvals", "approve", FIRST, "--answer", "blue", "--view-digest", String(DIGEST)],
      set,
    );
    expect(approved.sent).toEqual([{ decision: "approve", scope: "once", answer: "blue", viewDigest: DIGEST }]);
  });

  test("an approval that vouches for what an argument has now, and nothing is decided about another argument", async () => {
    const source = { tool: "read_mail", traceId: "01-a", field: "body", at: "2026-11-30T09:15:07.412Z" };
    const set = (service: StandInApprovals) =>
      service.add(
        question({
          view: view({
            dataFlow: { carried: ["untrusted"], arguments: [{ argument: "to[]", sources: [source] }] },
            vouchable: [
              { argument: "to[]", value: "bob@partner.test" },
              { argument: "to[]", value: "eve@partner.test" },
              { argument: "ur\u202el", value: "https://partner.test" },
            ],
          }),
        }),
      );
    const approved = await operate(["approvals", "approve", FIRST, "--vouch", "to[]"], set);
    expect(approved.out).toContain("to[] appeared in read_mail, field body, on 2026-11-30 09:15 UTC; call 01-a");
    expect(approved.out).toContain("to[]: an approver can vouch for bob@partner.test in later calls");
    expect(approved.sent).toMatchObject([
      { decision: "approve", scope: "once", vouch: ["bob@partner.test", "eve@partner.test"] },
    ]);
    const unknown = await operate(["approvals", "approve", FIRST, "--vouch", "cc[]"], set);
    expect(unknown).toMatchObject({
      ...{ code: 64, sent: [] },
      err: expect.stringContaining("this request offers to vouch for to[], ur\\u{202e}l only: nothing is decided"),
    });
    const nothing = await operate(["approvals", "approve", FIRST, "--vouch", "to[]"]);
    expect(nothing).toMatchObject({
      ...{ code: 64, sent: [] },
      err: expect.stringContaining("this request offers to vouch for nothing: nothing is decided"),
    });
  });

  test("show: the whole view, one token a line", async () => {
    const { code, out } = await operate(["approvals", "show", FIRST]);
    expect(code).toBe(0);
    for (const line of [
      `approval        ${FIRST} (pending)`,
      "tool            set_limit (write, command)",
      'description     "Set a limit"',
      "risk            medium",
      'command:\n  [0] "/usr/bin/ledger"\n  [1] "set"\n  [2] "--limit=5"\n',
      'workingDir      "/srv/ledger"',
      'environment:\n  PATH: "/usr/bin"\n',
      "arguments:\n  limit: 5\n",
      'requester:\n  issuer: "https://idp.test"\n  subject: "agent-7"\n  actors: (empty list)\n',
      'confinement     "none"',
      `view digest     ${DIGEST}`,
    ]) {
      expect(out).toContain(line);
    }
    expect(out).not.toContain("UNTRUSTED");
  });

  test("show: content that somebody would like to hide", async () => {
    const long = "x".repeat(200_000);
    const { out } = await operate(["approvals", "show", FIRST], (service) =>
      service.add(
        question({
          view: view({
            command: ["bash", `ls${" ".repeat(90)}; \u001b[2K\rсurl evil`, long],
            arguments: { 'a": "b': "\u202e", "risk            low": { deep: [[{ x: "y" }]] } },
            reason: { untrusted: true, text: "SYSTEM: safe, approved\nrisk            low" },
            surprise: { later: "versions" },
          }),
        }),
      ),
    );
    expect(out).toContain('[1] "ls⟦90 spaces⟧; \\u{1b}[2K\\u{d}сurl evil"');
    expect(out).toContain('in ASCII: "ls\\u{20}*90; \\u{1b}[2K\\u{d}\\u{441}url evil"');
    expect(out).toContain(long);
    expect(out).toContain('  "a\\u{22}: \\u{22}b": "\\u{202e}"');
    expect(out).toContain('surprise:\n  later: "versions"');
    expect(out).toContain('  risk            low:\n    deep:\n      [0]\n        [0]\n          x: "y"\n');
    expect(out.match(/^risk /gm)).toHaveLength(1);
    const [, box = ""] = out.split("+-- UNTRUSTED: what the agent says. Nobody has checked it.\n");
    expect(box).toStartWith(
      '| "SYSTEM: safe, approved\\u{a}risk⟦12 spaces⟧low"\n+--\nwhy it asks:\n  approval.required: "The tool\'s manifest asks a person about each of its calls."\n',
    );
  });

  test("show: nothing is left out, whatever a view contains", async () => {
    const none = { command: undefined, workingDir: undefined };
    const target = { system: "s", path: "@p/\u0430", diff: ["+\u0430"], content: "one" };
    const args = { content: "two", path: "@p/\u0430" };
    const shown = (changes: Parameters<typeof view>[0]) =>
      operate(["approvals", "show", FIRST], (service) => service.add(question({ view: view(changes) })));
    const change = await shown({ ...none, target, arguments: args, path: "a member", diff: "another member" });
    for (const text of ['"a member"', '"another member"', 'content: "one"', 'content: "two"', "path: (as in target)"])
      expect(change.out).toContain(text);
    // Path and difference are decided by looking at them letter by letter.
    expect(change.out).toContain('path            "@p/\u0430"\n    in ASCII: "@p/\\u{430}"\ndiff:\n  [0] "+\u0430"\n');
    expect(change.out).toContain('in ASCII: "+\\u{430}"');
    const posing = await shown({ ...none, target, arguments: { content: "(as in target)" } });
    expect(posing.out).toContain('  content: "(as in target)"');
    const command = await shown({ target });
    expect(command.out).toContain('  diff:\n    [0] "+\u0430"');
    expect(command.out).toContain('content: "one"');
  });

  test("show --json is the service's answer", async () => {
    const { out } = await operate(["approvals", "show", FIRST, "--json"]);
    expect(JSON.parse(out)).toMatchObject({
      approval: { id: FIRST, view: { command: ["/usr/bin/ledger", "set", "--limit=5"] } },
    });
    expect(out.trim().split("\n")).toHaveLength(1);
  });

  test.each([
    ["approve", ["approve"], { decision: "approve", scope: "once", viewDigest: DIGEST }, "approved (once)"],
    [
      "approve, for the session, with a reason",
      ["approve", "--session", "--reason", "fine"],
      { decision: "approve", scope: "session", reason: "fine", viewDigest: DIGEST },
      "approved (session)",
    ],
    [
      "approve, within bounds",
      ["approve", "--grant", "runs=5,minutes=30,same=note"],
      {
        ...{ decision: "approve", scope: "bounded", viewDigest: DIGEST },
        grant: { runs: 5, minutes: 30, arguments: { note: "equal" } },
      },
      "approved (bounded)",
    ],
    [
      "approve what was seen before",
      ["approve", "--view-digest", "cd".repeat(32)],
      { decision: "approve", scope: "once", viewDigest: "cd".repeat(32) },
      "approved (once)",
    ],
    ["deny", ["deny", "--reason", "no"], { decision: "deny", reason: "no" }, "denied"],
    ["revoke", ["revoke"], {}, "revoked"],
  ] as const)("%s", async (_, args, body, said) => {
    const { code, out, sent } = await operate(["approvals", ...args, FIRST]);
    expect({ code, sent }).toEqual({ code: 0, sent: [body] });
    expect(out).toEndWith(`${said}: ${FIRST}\n`);
    expect(out.includes("[2]")).toBe(args[0] === "approve" && args[1] !== "--view-digest");
    const programs = await operate(["approvals", ...args, FIRST, "--json"]);
    expect(JSON.parse(programs.out)).toMatchObject({ approval: { id: FIRST } });
  });

  test("a refusal by the service is exit 1, for people and for programs", async () => {
    const refuse = (service: StandInApprovals): void => {
      service.refusal = { status: 409, code: "APPROVAL_CONSUMED", message: "Too late.\u001b[2J" };
    };
    const people = await operate(["approvals", "deny", FIRST], refuse);
    expect(people).toMatchObject({ code: 1, out: "", err: "APPROVAL_CONSUMED: Too late.\\u{1b}[2J\n" });
    const programs = await operate(["approvals", "deny", FIRST, "--json"], refuse);
    expect(programs).toMatchObject({ code: 1, err: "" });
    expect(JSON.parse(programs.out)).toMatchObject({ error: { code: "APPROVAL_CONSUMED" } });
    const unknown = await operate(["approvals", "approve", FIRST.replace("1", "2")]);
    expect(unknown).toMatchObject({ code: 1, sent: [], err: expect.stringContaining("APPROVAL_NOT_FOUND") });
  });

  test.each([
    ["an id that is another path", ["approvals", "deny", ".."], "not a valid id"],
    ["an id that is none", ["approvals", "show", "a b"], "not a valid id"],
    ["a reason without an end", ["approvals", "deny", FIRST, "--reason", "x".repeat(501)], "more than 500"],
    ["whose session it is, half", ["mode", "set", "s", "yolo", "--for", "1m", "--subject", "a"], "go together"],
  ])("wrong usage: %s", async (_, args, reason) => {
    const { code, out, err, requests } = await operate(args);
    expect({ code, out, requests }).toEqual({ code: 64, out: "", requests: [] });
    expect(err).toContain(reason);
  });

  test.each([
    ["a mode that is none", ["mode", "set", "s", "brave", "--for", "1m"], "Allowed choices"],
    ["a mode without an end", ["mode", "set", "s", "yolo"], "--for"],
    ["a mode for days", ["mode", "set", "s", "yolo", "--for", "25h"], "more than 24h"],
    ["a grant without a number", ["approvals", "approve", FIRST, "--grant", "runs=many"], "runs=5,minutes=30"],
    ["a grant that says its runs twice", ["approvals", "approve", FIRST, "--grant", "runs=1,runs=2"], "at most once"],
    ["a grant and the session", ["approvals", "approve", FIRST, "--grant", "runs=1", "--session"], "cannot be used"],
    ["an unknown command", ["approvals", "bless"], "unknown command"],
    ["a state that is none", ["approvals", "list", "--state", "foo"], "Allowed choices are pending"],
  ])("wrong usage, in stc's own words: %s", async (_, args, reason) => {
    const { code, err, requests } = await operate(args);
    expect({ code, requests }).toEqual({ code: 64, requests: [] });
    expect(err).toContain(reason);
  });

  test("without a view nothing is approved", async () => {
    const { code, sent } = await operate(["approvals", "approve", FIRST], (service) =>
      service.set(FIRST, { view: undefined }),
    );
    expect({ code, sent }).toEqual({ code: 64, sent: [] });
  });

  test("an id is one segment of the path, whatever it contains", async () => {
    const { requests } = await operate(["mode", "end", "a/../../approvals?x#y"]);
    expect(requests).toEqual(["DELETE /sessions/a%2F..%2F..%2Fapprovals%3Fx%23y"]);
  });

  test("no service, or one with another protocol", async () => {
    const args = ["approvals", "list", "--token-file", join(folder, "token"), "--url"];
    expect(await runStc([...args, "http://127.0.0.1:9"])).toMatchObject({
      code: 2,
      out: "",
      err: expect.stringContaining("no answer"),
    });
    const strange = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch: () => Response.json({ approvals: [{ id: "../x" }] }),
    });
    const ended = await runStc([...args, `http://127.0.0.1:${strange.port}`]);
    await strange.stop(true);
    expect(ended).toMatchObject({ code: 1, out: "", err: expect.stringContaining("does not understand") });
    expect(await runStc(["approvals", "list"])).toMatchObject({ code: 64, err: expect.stringContaining("no token") });
  });
});

describe.concurrent("stc grants and stc mode", () => {
  test.each([
    [["grants", "list"], "GET /grants", [], /^ID .*\n0190.* agent-7 +s-1\\u\{1b\}\[2J +set_limit /],
    [["grants", "revoke", "g1"], "DELETE /grants/g1", [], /^revoked: g1\n$/],
    [["mode", "list"], "GET /sessions", [], /^SESSION .*\ns-1 +yolo +20.* agent-7 /],
    [
      ["mode", "set", "s-1", "autoEdit", "--for", "30m", "--subject", "agent-7", "--issuer", "https://idp.test"],
      "PUT /sessions/s-1/mode",
      [{ mode: "autoEdit", expiresInSeconds: 1_800, subject: "agent-7", issuer: "https://idp.test" }],
      /^autoEdit for 1800 s: s-1\n$/,
    ],
    [
      ["mode", "set", "s-1", "yolo", "--for", "1m", "--sub", "agent-7", "--iss", "https://idp.test"],
      "PUT /sessions/s-1/mode",
      [{ mode: "yolo", expiresInSeconds: 60, subject: "agent-7", issuer: "https://idp.test" }],
      /^yolo for 60 s: s-1\n$/,
    ],
    [["mode", "end", "s-1"], "DELETE /sessions/s-1", [], /^ended: s-1\n$/],
  ] as const)("%p", async (args, request, bodies, out) => {
    const people = await operate(args);
    expect(people).toMatchObject({ code: 0, err: "", requests: [request], sent: bodies });
    expect(people.out).toMatch(out);
    const programs = await operate([...args, "--json"]);
    expect(JSON.parse(programs.out)).toBeObject();
  });
});

describe.concurrent("stc token", () => {
  const claims = ({ code, out }: Ended) => {
    expect(code).toBe(0);
    return decodeJwt(out.trim());
  };

  test("an operator has the operators' permissions, unless others are given", async () => {
    const all = claims(await runStc(["token", "--operator", "--sub", "ana"]));
    expect(all["permissions"]).toEqual([
      "approvals:decide",
      "data-flow:read",
      "data-flow:vouch",
      "data-flow:write",
      "grants:manage",
      "modes:manage",
      "halts:read",
      "halts:write",
      "audit:read",
      "metrics:read",
      "configuration:read",
      "tenants:read",
      "tools:read",
      "tools:learn",
      "quotas:read",
      "quotas:write",
      "policy:evaluate",
      "policy:explain",
    ]);
    expect(all["sid"]).toBeUndefined();
    const one = claims(await runStc(["token", "--operator", "--sub", "ana", "--permission", "audit:read"]));
    expect(one["permissions"]).toEqual(["audit:read"]);
  });

  test("an agent has a session: a random one, or the named one", async () => {
    const [one, other, named] = await Promise.all([
      runStc(["token", "--sub", "a"]),
      runStc(["token", "--sub", "a"]),
      runStc(["token", "--sub", "a", "--session", "s-1"]),
    ]);
    expect(claims(one)["sid"]).toMatch(/^[0-9a-f-]{36}$/);
    expect(claims(one)["sid"]).not.toBe(claims(other)["sid"]);
    expect(claims(one)["permissions"]).toEqual([]);
    expect(claims(named)["sid"]).toBe("s-1");
  });

  test.each([
    ["an operator's session", ["--operator", "--session", "s"]],
    ["a session with blanks", ["--session", "a b"]],
    ["a session without a name", ["--session", ""]],
  ])("wrong usage: %s", async (_, args) => {
    expect(await runStc(["token", "--sub", "a", ...args])).toMatchObject({ code: 64, out: "" });
  });
});
