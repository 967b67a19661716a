import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { defineTool } from "../../../src/index.ts";
import { AskingService, type CallExtras, type Reply } from "../../support/asking-service.ts";
import { PROJECT } from "../../support/world.ts";

const permissions = { required: ["deeds:do"] };
const output = z.object({ done: z.boolean() });
const outputPolicy = { done: "allow" } as const;

const POLICIES = [
  {
    name: "two-teams",
    when: { tools: ["rotate_keys"] },
    require: {
      stages: [
        { name: "team", deciders: { permissions: ["approvals:team"] } },
        { name: "security", deciders: { permissions: ["approvals:security"] } },
      ],
    },
    reasonRequired: "deny",
  },
  {
    name: "on-call",
    when: { tools: ["page_everybody"] },
    require: { deciders: { permissions: ["approvals:team"] } },
    escalate: [{ afterSeconds: 2, deciders: { permissions: ["approvals:security"] } }],
  },
];

const OPERATOR = ["approvals:decide", "grants:manage", "modes:manage", "audit:read"];
const AGENT = ["deeds:do", "workspace:bash", "workspace:fs:write", "operators:ask"];

/** A service with a tool of each kind that asks, and an HTTP API that it calls. */
export class ConsoleWorld extends AskingService {
  readonly done: string[] = [];
  #consolePort = 0;
  readonly #api = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => Response.json({ done: true }) });

  /** Starts the service, or starts it again where its console was before. */
  async start(more: Readonly<Record<string, unknown>> = {}): Promise<this> {
    const work = join(this.folder, "work");
    mkdirSync(work, { recursive: true });
    writeFileSync(join(work, "notes.md"), "# Release\n\n- freeze main\n- tag v1.4\n- announce\n");
    await this.run(
      {
        server: { port: 0, console: { port: this.#consolePort } },
        tools: [...this.#tools(), ...["workspace/bash", "workspace/fs-write", "people/ask-operator"].map(shipped)],
        systems: {
          shop: { http: { baseUrl: `http://127.0.0.1:${this.#api.port}/api`, addresses: ["loopback"] } },
        },
        commands: { allowed: ["bash"], confinement: "off", unconfinedBash: true },
        workspace: { project: "work" },
        ...more,
        approvals: {
          ...{ store: "sqlite://./approvals.sqlite", policies: POLICIES, pendingPerCallerMax: 1_000 },
          ...{ pendingPerSessionMax: 1_000 },
          ...(more["approvals"] as object | undefined),
        },
      },
      process.env["PATH"],
    );
    this.#consolePort = Number(new URL(this.consoleUrl).port);
    return this;
  }

  /** Asks for a call, and returns the id of the approval request. */
  async ask(tool: string, args: unknown, extras: CallExtras = {}): Promise<string> {
    const { http, body } = await this.call(tool, args, extras);
    if (http !== 202) throw new Error(`not asked: ${http} ${JSON.stringify(body)}`);
    return body.approval.id;
  }

  override async end(): Promise<void> {
    await super.end();
    await this.#api.stop(true);
  }

  operator(sub = "olga", more: readonly string[] = []): Promise<string> {
    return this.person({ sub, permissions: [...OPERATOR, ...more] });
  }

  async call(tool: string, args: unknown, extras: CallExtras = {}): Promise<Reply> {
    const { token = await this.agent({ permissions: AGENT }), headers = {}, signal, ...rest } = extras;
    const sent = { token, headers, ...(signal !== undefined && { signal }) };
    return this.send("POST", "/call", { ...sent, body: { tool, args, ...rest } });
  }

  #tools() {
    const deed = (name: string, description: string, more: object = {}) =>
      defineTool({
        ...{ name, description, classification: "write", category: "write", permissions, output, outputPolicy },
        input: z.strictObject({ text: z.string().max(2_000_000), count: z.number().int().optional() }),
        handler: ({ text }) => {
          this.done.push(text);
          return { done: true };
        },
        ...more,
      });
    return [
      deed("announce", "Announces a text to all customers"),
      deed("rotate_keys", "Rotates the signing keys"),
      deed("page_everybody", "Pages everybody who is on call"),
      deed("drop_tables", "Drops tables", {
        classification: "destructive",
        approval: { message: "Nothing brings the data back." },
      }),
      defineTool({
        ...{ name: "create_order", description: "Creates an order in the shop", classification: "write" },
        ...{ category: "network", permissions, output, outputPolicy },
        input: z.strictObject({
          customer: z.string().max(40),
          items: z.array(z.string()),
          note: z.string().optional(),
        }),
        approval: { grants: { runs: 10, minutes: 60, arguments: { items: "any", note: "any" } } },
        target: {
          system: "shop",
          http: {
            ...{ method: "POST", path: "/customers/{customer}/orders" },
            body: { items: "{items}", note: "{note}" },
          },
        },
      }),
    ];
  }
}

function shipped(name: string): string {
  return join(PROJECT, "tools", `${name}.ts`);
}
