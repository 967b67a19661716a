import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { defineTool } from "../../src/index.ts";
import { AskingService, type Loose, type Reply } from "../support/asking-service.ts";
import { readConfigFile } from "../support/build.ts";
import { blockNamed } from "../support/documented.ts";
import { type Ended, runStc } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

const EXAMPLE = join(PROJECT, "docs/examples/data-flow");

/** The example's service, with issuers of the test. */
class ExampleService extends AskingService {
  async start(): Promise<void> {
    const { jwt: _, audit: __, ...sections } = parse(readFileSync(join(EXAMPLE, "stc.yaml"), "utf8"));
    await this.run({ ...sections, tools: [join(EXAMPLE, "tools")] });
    const permissions = ["data-flow:read", "data-flow:write", "approvals:decide"];
    writeFileSync(join(this.folder, "token"), await this.person({ permissions }), { mode: 0o600 });
  }

  async call(tool: string, args: Loose): Promise<Reply> {
    const token = await this.agent({ permissions: ["tickets:read", "customers:read", "refunds:send", "mail:send"] });
    return this.send("POST", "/call", { token, body: { tool, args } });
  }

  stc(...words: readonly string[]): Promise<Ended> {
    return runStc(words, { env: { STC_URL: this.url, STC_TOKEN_FILE: join(this.folder, "token") } });
  }
}

test("the declaration of the page is valid", () => {
  const { dataFlow } = parse(blockNamed("docs/data-flow.md: # in a tool's manifest").text);
  const text = z.string().max(100);
  const tool = {
    ...({ name: "reply", description: "Reply", classification: "write", category: "network", dataFlow } as const),
    permissions: { required: ["tickets:write"] },
    input: z.strictObject({ to: text, cc: z.array(text) }),
    output: z.strictObject({ ticket: z.strictObject({ requester: text }) }),
    outputPolicy: { "ticket.requester": "allow" },
    handler: () => ({ ticket: { requester: "" } }),
  } as const;
  expect(defineTool(tool).dataFlow).toEqual(dataFlow);
  expect(() =>
    defineTool({ ...tool, dataFlow: { destinations: ["too"], trusted: ["ticket.requestor"], sends: [] } }),
  ).toThrow(
    'tool reply: dataFlow.destinations[0]: "too" matches no field of the schema; did you mean to?; dataFlow.trusted[0]: "ticket.requestor" matches no field of the schema',
  );
});

const service = new ExampleService();
beforeAll(() => service.start());
afterAll(() => service.end());

test("the configuration of the example is valid", () => {
  expect(readConfigFile(join(EXAMPLE, "stc.yaml"), {}).dataFlow).toMatchObject({ default: "on", trustSid: false });
});

test("a refund to an account that only a ticket names asks, and the approver reads which ticket", async () => {
  const { body: read } = await service.call("get_ticket", { id: "812" });
  const { body } = await service.call("refund", { iban: "DE89370400440532013000", cents: 100 });
  expect(body.status).toBe("pending");
  const shown = await service.stc("approvals", "show", body.approval.id);
  const year = new Date().getUTCFullYear();
  expect(shown.out.replaceAll(/\s+/g, " ")).toMatch(
    new RegExp(
      `iban \\(a destination\\) appeared in get_ticket \\(id: 812\\), field ticket.body, untrusted, on ${year}-\\S+ \\S+ UTC; call ${read.traceId}`,
    ),
  );
});

test("a mail to the requester passes until private data has been read", async () => {
  const mail = { to: ["Ann@customer.example"], body: "It is on its way." };
  expect((await service.call("send_mail", mail)).http).toBe(200);
  await service.call("get_customer", { requester: "ann@customer.example" });
  expect((await service.call("send_mail", mail)).body.status).toBe("pending");
});

test("stc shows what the agent has read, and clears it", async () => {
  const issuer = service.entries().at(-1)?.caller.iss ?? "";
  const shown = await service.stc("flow", "show", issuer, "agent-7");
  for (const text of ["private", "untrusted", "get_ticket", "get_customer"]) expect(shown.out).toContain(text);
  const cleared = await service.stc("flow", "clear", issuer, "agent-7", "--reason", "the ticket is closed");
  expect([cleared.code, cleared.out]).toEqual([0, `cleared: agent-7 of ${issuer} (private, untrusted)\n`]);
  expect((await service.call("send_mail", { to: ["x@elsewhere.example"], body: "hi" })).http).toBe(200);
});
