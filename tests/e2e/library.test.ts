import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import {
  ApprovalDeniedError,
  AuditError,
  AuthenticationError,
  defineTool,
  ExecutionError,
  LimitError,
  OutputError,
  PermissionDeniedError,
  RequestError,
  SafeToolCall,
  type SafeToolCallOptions,
  StartupError,
  ToolCallError,
  ToolNotFoundError,
  unwrap,
  ValidationError,
} from "../../src/index.ts";
import { getCustomer } from "../../tools/customer-data/get-customer.ts";
import { answer, echo, hold } from "../cases/tools/answers.ts";
import { destroy, write } from "../cases/tools/changes.ts";
import { auditEntries } from "../support/audit-files.ts";
import { until } from "../support/until.ts";
import { openWorld, PROJECT, type World } from "../support/world.ts";

let world: World;
let stc: SafeToolCall;
let token: string;
let auditDir: string;

const JOHN = { customerId: "3f0c9a52-6b1e-4c77-9d3a-000000000001" };

function freshDirectory(): string {
  return realpathSync(mkdtempSync(join(world.folder, "library-")));
}

function optionsWith(changes: Partial<SafeToolCallOptions> = {}): SafeToolCallOptions {
  return {
    ...world.targets,
    tools: [getCustomer, echo, answer, hold, write, destroy],
    audit: { dir: join(freshDirectory(), "audit") },
    jwt: { issuers: world.issuers.profiles() as never },
    ...changes,
  };
}

function tokenWith(...permissions: readonly string[]): Promise<string> {
  return world.issuers.token({ kind: "good", sub: "agent-7", permissions });
}

/** A tool of one function. */
function inlineTool(name: string, handler: () => Record<string, never> | Promise<Record<string, never>>) {
  return defineTool({
    name,
    description: "A tool of a test",
    classification: "write",
    category: "network",
    permissions: { required: ["case:run"] },
    approval: { needsApproval: () => false },
    input: z.strictObject({}),
    handler,
    output: z.strictObject({}),
    outputPolicy: {},
  });
}

beforeAll(async () => {
  world = await openWorld();
  token = await tokenWith("case:run", "customer-data:read");
  const options = optionsWith();
  auditDir = options.audit.dir;
  stc = SafeToolCall.create(options);
});

afterAll(async () => {
  await stc.close();
  await world.close();
});

describe("create", () => {
  test("opens nothing; the first call starts everything, with or without ready()", async () => {
    const folder = freshDirectory();
    const made = SafeToolCall.create(optionsWith({ audit: { dir: join(folder, "audit") } }));
    expect(readdirSync(folder)).toEqual([]);
    const results = await Promise.all([made.call(echo, {}, token), made.call(echo, {}, token), made.ready()]);
    expect(results.slice(0, 2).map((result) => result?.status)).toEqual(["success", "success"]);
    expect(auditEntries(join(folder, "audit"))).toHaveLength(2);
    await made.close();
  });

  test("accepts paths as well as values, relative to a given folder", async () => {
    const folder = freshDirectory();
    const [agents] = world.issuers.profiles() as readonly { readonly jwks: unknown; readonly issuer: string }[];
    writeFileSync(join(folder, "jwks.json"), JSON.stringify(agents?.jwks));
    const made = SafeToolCall.create({
      ...world.targets,
      folder,
      tools: [join(PROJECT, "tools/platform"), getCustomer],
      audit: { dir: "audit" },
      jwt: { issuer: agents?.issuer ?? "", jwksFile: "jwks.json" },
    });
    await made.ready();
    expect(made.listTools({ format: "json" })).toHaveLength(4);
    expect(unwrap(await made.call("get_customer", JOHN, token))).toMatchObject({
      customer: { fullName: "J*** S****" },
    });
    expect(readdirSync(folder).sort()).toEqual(["audit", "audit.key", "jwks.json"]);
    await made.close();
  });

  test("accepts a PEM key", async () => {
    const publicKey = world.issuers.agents.publicKey.export({ type: "spki", format: "pem" }) as string;
    const made = SafeToolCall.create(
      optionsWith({ jwt: { issuer: "https://idp.test", algorithms: ["ES256"], publicKey } }),
    );
    expect((await made.call(echo, {}, token)).status).toBe("success");
    await made.close();
  });

  test.each([
    ["no issuer", { jwt: { issuers: [] } }, "SafeToolCall.create: jwt.issuers"],
    ["no tools", { tools: [] }, "SafeToolCall.create: tools"],
    ["no audit", { audit: { enabled: false } as never }, "SafeToolCall.create: audit"],
    ["a limit of nothing", { limits: { concurrentCallsMax: 0 } }, "SafeToolCall.create: limits.concurrentCallsMax"],
  ] as const)("refuses %s at once", (_, changes, problem) => {
    expect(() => SafeToolCall.create(optionsWith(changes as never))).toThrow(StartupError);
    expect(() => SafeToolCall.create(optionsWith(changes as never))).toThrow(problem);
  });

  test("problems that only the start finds are reported by ready() and every call", async () => {
    const made = SafeToolCall.create(optionsWith({ tools: ["./nowhere", {} as never, echo, echo] }));
    for (const start of [made.ready(), made.ready(), made.call(echo, {}, token)]) {
      const error = await start.catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(StartupError);
      expect((error as StartupError).problems.join("\n")).toMatch(
        /tools\[0\].*cannot be read \(ENOENT\)\ntools\[1\]: is neither/,
      );
    }
    await made.close();
  });

  test("one audit directory has one writer", async () => {
    await stc.ready();
    const second = SafeToolCall.create(optionsWith({ audit: { dir: auditDir } }));
    await expect(second.ready()).rejects.toThrow(`audit.dir: ${auditDir} is already in use`);
    await second.close();
    expect((await stc.call(echo, {}, token)).status).toBe("success");
  });
});

describe("close", () => {
  test("waits for calls in progress and releases the directory", async () => {
    const started = Promise.withResolvers<void>();
    const released = Promise.withResolvers<Record<string, never>>();
    const gated = inlineTool("case_gated", () => {
      started.resolve();
      return released.promise;
    });
    const options = optionsWith({ tools: [gated] });
    const made = SafeToolCall.create(options);
    const call = made.call(gated, {}, token);
    await started.promise;
    const closing = made.close();
    expect(await made.call(gated, {}, token)).toMatchObject({ status: "denied", error: { code: "SHUTTING_DOWN" } });
    released.resolve({});
    expect((await call).status).toBe("success");
    await closing;
    const next = SafeToolCall.create(options);
    await next.ready();
    await next.close();
  });

  test("may be called twice, and before the start", async () => {
    await SafeToolCall.create(optionsWith()).close();
    const made = SafeToolCall.create(optionsWith());
    await made.ready();
    await Promise.all([made.close(), made.close()]);
  });
});

describe("results", () => {
  test("are typed by the tool", async () => {
    const { customer } = unwrap(await stc.call(getCustomer, JOHN, token));
    const name: string | undefined = customer?.fullName;
    expect(name).toBe("J*** S****");
    // @ts-expect-error the argument is called customerId
    const refused = await stc.call(getCustomer, { id: 1 }, token);
    expect(refused.status).toBe("denied");
  });

  const row = async (kind: typeof ToolCallError, code: string, call: () => Promise<unknown>): Promise<void> => {
    const error = await call().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(kind);
    expect(error).toBeInstanceOf(ToolCallError);
    expect(error).toMatchObject({ code, name: kind.name, traceId: expect.stringMatching(/^[0-9a-f-]{36}$/) });
  };

  test("of a refusal are what unwrap throws", async () => {
    const call = async (tool: string, args: unknown, jwt = token) => unwrap(await stc.call(tool, args, jwt));
    await row(AuthenticationError, "UNAUTHENTICATED", () => call("case_echo", {}, "x.y.z"));
    await row(ToolNotFoundError, "TOOL_NOT_FOUND", () => call("no_such_tool", {}));
    const poor = await tokenWith();
    await row(PermissionDeniedError, "PERMISSION_DENIED", () => call("case_echo", {}, poor));
    await row(ValidationError, "INVALID_INPUT", () => call("case_echo", { count: "3" }));
    await row(ApprovalDeniedError, "APPROVAL_DENIED", () => call("case_destroy", {}));
    await row(ExecutionError, "TARGET_FAILED", () => call("case_answer", { how: "throws" }));
    await row(OutputError, "INVALID_OUTPUT", () => call("case_answer", { how: "cyclic" }));
    const failure = (stage: string, code: string) =>
      ({
        status: "denied",
        error: { code, stage, message: "no", retryable: false },
        traceId: crypto.randomUUID(),
      }) as never;
    await row(LimitError, "OVERLOADED", async () => unwrap(failure("LIMIT", "OVERLOADED")));
    await row(RequestError, "MALFORMED_REQUEST", async () => unwrap(failure("REQUEST", "MALFORMED_REQUEST")));
    await row(AuditError, "AUDIT_UNAVAILABLE", async () => unwrap(failure("AUDIT", "AUDIT_UNAVAILABLE")));
  });
});

describe("listTools", () => {
  test("uses each LLM's own format", async () => {
    await stc.ready();
    const [openai] = stc.listTools();
    expect(openai).toMatchObject({
      type: "function",
      function: { name: "get_customer", parameters: { type: "object" } },
    });
    const [anthropic] = stc.listTools({ format: "anthropic" });
    expect(anthropic).toMatchObject({
      name: "get_customer",
      input_schema: { type: "object", required: ["customerId"] },
    });
    const [json] = stc.listTools({ format: "json" });
    expect(json).toMatchObject({ name: "get_customer", classification: "read", category: "read" });
  });

  test("shows tools given as values before the start", () => {
    expect(SafeToolCall.create(optionsWith()).listTools()).toHaveLength(6);
  });
});

describe("an AbortSignal", () => {
  test("aborted during a wait ends the call", async () => {
    const leaving = new AbortController();
    const before = auditEntries(auditDir).length;
    const call = stc.call(hold, {}, token, { signal: leaving.signal });
    leaving.abort();
    expect(await call).toMatchObject({ status: "error", error: { code: "CANCELLED", retryable: false } });
    await until("the line", () => auditEntries(auditDir)[before]);
    expect(auditEntries(auditDir)[before]).toMatchObject({ decision: "ERROR", error: { code: "CANCELLED" } });
  });

  test("aborted before the call lets nothing run", async () => {
    const signal = AbortSignal.abort();
    expect(await stc.call(write, {}, token, { signal })).toMatchObject({ error: { code: "CANCELLED" } });
    expect(auditEntries(auditDir).at(-1)).toMatchObject({ tool: { name: "case_write" }, error: { code: "CANCELLED" } });
  });

  test("does not end a change in progress", async () => {
    const leaving = new AbortController();
    const slow = inlineTool("case_slow_write", async () => {
      leaving.abort();
      await Promise.resolve();
      return {};
    });
    const made = SafeToolCall.create(optionsWith({ tools: [slow] }));
    expect(unwrap(await made.call(slow, {}, token, { signal: leaving.signal }))).toEqual({});
    await made.close();
  });
});
