import { z } from "zod";
import { Refusal } from "../../core/errors.ts";
import { json } from "../answers.ts";
import type { NotReady } from "../endpoint.ts";
import { type Endpoint, endpointsWith, type ListenerState } from "../endpoint.ts";

/** Facts about the service that operators may read, without secrets and paths. `routes/inventory.ts` has the schemas. */
interface ServiceInventory {
  tools(): object;
  /** Returns undefined when there is no tool of this name. */
  tool(name: string): object | undefined;
  systems(): Promise<object>;
  configuration(): object;
}

/** What these endpoints need of the service. */
export interface InventoryPart {
  /** Returns the tools, systems and settings in use; loads their code at the first use. */
  readonly inventory: () => Promise<ServiceInventory>;
  readonly notReady: () => readonly NotReady[];
  /** Returns the open listeners. */
  readonly listening: () => readonly ListenerState[];
}

const { endpoint } = endpointsWith<InventoryPart>();

/** The parts of a service, for operators: its tools, the systems that they reach, and its configuration. */

const operators = { method: "GET", audience: "operators", query: z.strictObject({}) } as const;

const names = z.array(z.string());

const summary = z.object({
  name: z.string(),
  title: z.string(),
  version: z.string(),
  kind: z.string().describe("The kind of its target, such as `http`."),
  system: z.string(),
  classification: z.enum(["read", "write", "destructive"]),
  category: z.enum(["read", "write", "command", "network", "ask"]),
  permissions: names.describe("All of them are required of callers."),
  elevated: names.describe("Required besides, for some arguments."),
  asks: z
    .enum(["always", "by mode", "no"])
    .describe("Whether a call needs an approval. Risk rules can ask more often."),
  source: z.string().optional().describe("The manifest's file; left out for a tool that the library was given."),
  isQuarantined: z.boolean().describe("Whether its system changed it, so that it is not called."),
});

const fieldRules = z.array(
  z.object({ field: z.string(), action: z.enum(["allow", "mask", "redact"]), reason: z.string().optional() }),
);

const policy = z.object({
  name: z.string(),
  risk: z.enum(["low", "medium", "high", "critical"]).describe("The lowest risk of calls to which it applies."),
  distinctPeople: z.boolean(),
  stages: z.array(
    z.object({
      name: z.string(),
      count: z.int(),
      deciders: z.object({
        permissions: names,
        subjects: z.array(z.object({ issuer: z.string(), subject: z.string() })).optional(),
      }),
    }),
  ),
  reasonRequired: z.enum(["never", "deny", "always"]),
  scopes: z.array(z.enum(["once", "session", "bounded"])),
  decideBySeconds: z.int().optional(),
  executeBySeconds: z.int().optional(),
});

const jsonSchema = z.record(z.string(), z.unknown());

const details = summary.extend({
  description: z.string(),
  identity: z.string().describe("Hex SHA-256 over what identifies the tool in an approval."),
  callers: z
    .object({
      subjects: names,
      certificates: names,
      roles: names.describe("Roles bound to a group or to claims that give all of the permissions."),
    })
    .describe("Who holds the permissions by the configuration. Permissions in tokens are known only to their issuers."),
  approval: z.object({
    dependsOnArguments: z.boolean(),
    risk: z.enum(["medium", "high", "critical"]).optional(),
    scopes: z.array(z.enum(["once", "session"])),
    grants: z
      .object({ runs: z.int(), minutes: z.int(), arguments: z.record(z.string(), z.string()) })
      .optional()
      .describe("The widest bounded grant that approvers may give, with the bounds of each argument in words."),
    message: z.string().optional(),
    isAnswered: z.boolean().describe("Whether approvers also write an answer, which the tool gets."),
    policies: z.array(policy).describe("The approval policies that may apply."),
  }),
  inputSchema: jsonSchema,
  outputSchema: jsonSchema,
  outputPolicy: fieldRules.describe("Fields without a rule are not released."),
  inputPolicy: fieldRules.describe("Which arguments the audit may hold."),
  scan: z.unknown(),
  timeoutMs: z.int(),
  limits: z.object({
    outputBytesMax: z.int(),
    concurrentCallsMax: z.int(),
    resultBytesMax: z.int().optional(),
  }),
  idempotent: z.boolean(),
  additive: z.boolean().describe("Whether calls only add, and never change or remove what exists."),
  cost: z.number().optional().describe("What one call counts in quotas of cost."),
  errors: z.enum(["withheld", "filtered"]),
  target: z.record(z.string(), z.unknown()).describe("The manifest's target, without functions, secrets and paths."),
  quarantine: z.object({ reason: z.string(), changes: names }).optional(),
  notes: z.array(z.object({ field: z.string(), message: z.string() })).describe("As `stc check` shows them."),
});

const catalog = z.object({
  tools: z.array(summary),
  notRegistered: names.describe("Tools that were refused at load, with the reason."),
});

const system = z.looseObject({
  name: z.string(),
  kind: z.string(),
  addresses: names.describe("As configured; of a program its name."),
  tls: z.enum(["none", "server", "mutual"]).describe("`mutual`: also with a certificate of the service's own."),
  tools: names,
  contract: z.object({ origin: z.string(), sha256: z.string(), isPinned: z.boolean() }).optional(),
  state: z.string().optional(),
  circuit: z.enum(["closed", "open", "half-open"]).optional(),
  health: z.string().nullable().optional(),
  calls: z.object({ inFlight: z.int(), max: z.int() }).optional(),
  certificateExpiresAt: z.iso.datetime().nullable().optional(),
});

const listener = z.object({
  listener: z
    .enum(["agents", "operators", "console"])
    .describe("`server`, `server.operator` and `server.console` of the configuration."),
  addresses: names.describe("URLs with their actual ports, or `Unix socket`."),
  tls: z.enum(["none", "server"]),
  clientCertificates: z.enum(["none", "accepted", "required"]),
  certificateExpiresAt: z.iso.datetime().nullable().describe("Of the certificate in use; `null` without TLS."),
});

const systems = z.object({
  systems: z.array(system),
  listeners: z.array(listener).describe("The service's own listeners."),
  certificates: z.array(z.object({ system: z.string(), expiresAt: z.iso.datetime() })),
  notes: names,
  confinement: z
    .object({
      mode: z.enum(["require", "prefer", "off"]),
      tools: z.record(z.string(), z.string()),
      faults: z.record(z.string(), z.string()),
    })
    .optional(),
  audit: z.looseObject({ status: z.string() }),
  revocations: z.looseObject({ status: z.string() }).optional(),
  decisionPoints: z
    .array(
      z.looseObject({
        name: z.string(),
        kind: z.string(),
        circuit: z.enum(["closed", "open", "half-open"]).optional(),
        verdicts: z.object({ allow: z.int(), deny: z.int(), ask: z.int() }),
        errors: z.int(),
        lastError: z.object({ at: z.iso.datetime(), reason: z.string() }).nullable(),
      }),
    )
    .optional()
    .describe("The points of `decisionPoints` in the configuration."),
  reasons: names.describe("Why calls are not accepted now; empty while they are."),
});

const configuration = z.object({
  state: z
    .object({
      generation: z.int(),
      sha256: z.string().describe("As in `configuration.changed` in the journal."),
      since: z.iso.datetime(),
      lastRefused: z.object({ at: z.iso.datetime(), problems: z.int() }).nullable(),
    })
    .optional(),
  problems: names.describe("Problems of the last reload, if it was refused."),
  values: z.record(z.string(), z.unknown()).describe("The values in use, with their defaults."),
  liveKeys: names.describe("Keys that a reload changes, with everything below them."),
});

export const endpoints: readonly Endpoint<InventoryPart>[] = [
  endpoint({
    ...operators,
    path: "/catalog",
    summary: "Every registered tool, and those that were refused at load.",
    permission: "tools:read",
    responses: { 200: { schema: catalog } },
    audited: "catalog.read",
    async handle(_request, { inventory }) {
      return json(200, (await inventory()).tools());
    },
  }),
  endpoint({
    ...operators,
    path: "/catalog/:name",
    summary: "One tool: its manifest, schemas, policies, and who may call it.",
    permission: "tools:read",
    params: z.object({ name: z.string().max(128) }),
    responses: { 200: { schema: details } },
    audited: "catalog.read",
    async handle({ params: { name } }, { inventory }) {
      const tool = (await inventory()).tool(name);
      if (tool === undefined) {
        throw new Refusal("TOOL_NOT_FOUND", "There is no tool of this name: GET /catalog lists those that there are.");
      }
      return json(200, tool, { recorded: { tool: name } });
    },
  }),
  endpoint({
    ...operators,
    path: "/systems",
    summary:
      "The systems that tools reach: state, addresses, TLS, certificates, confinement; and the service's listeners.",
    permission: "metrics:read",
    responses: { 200: { schema: systems } },
    audited: "systems.read",
    async handle(_request, { inventory, notReady, listening }) {
      const listeners = (listening?.() ?? []).map(listenerShown);
      return json(200, { ...(await (await inventory()).systems()), listeners, reasons: notReady() });
    },
  }),
  endpoint({
    ...operators,
    path: "/configuration",
    summary: "The configuration in use, without secrets and paths.",
    permission: "configuration:read",
    responses: { 200: { schema: configuration } },
    audited: "configuration.read",
    async handle(_request, { inventory }) {
      return json(200, (await inventory()).configuration());
    },
  }),
];

function listenerShown({ certificateExpiresAt: at, ...state }: ListenerState) {
  return { ...state, certificateExpiresAt: at === undefined ? null : new Date(at).toISOString() };
}
