import { z } from "zod";
import { BUNDLE_STATES } from "../bundle-states.ts";
import { APPROVAL_SCOPES, CATEGORIES, CLASSIFICATIONS, FIELD_ACTIONS, RISKS } from "../types.ts";
import type { ReadonlyDeep } from "./readonly.ts";

/** What `GET /catalog`, `/systems` and `/configuration` answer: the schemas of the endpoints, and what the console reads. */

export const names = z.array(z.string());

const summary = z.object({
  name: z.string(),
  title: z.string(),
  version: z.string(),
  kind: z.string().describe("The kind of its target, such as `http`."),
  system: z.string(),
  classification: z.enum(CLASSIFICATIONS),
  category: z.enum(CATEGORIES),
  permissions: names.describe("All of them are required of callers."),
  elevated: names.describe("Required besides, for some arguments."),
  asks: z
    .enum(["always", "by mode", "no"])
    .describe("Whether a call needs an approval. Risk rules can ask more often."),
  source: z.string().optional().describe("The manifest's file; left out for a tool that the library was given."),
  isQuarantined: z.boolean().describe("Whether its system changed it, so that it is not called."),
});

const fieldRules = z.array(
  z.object({ field: z.string(), action: z.enum(FIELD_ACTIONS), reason: z.string().optional() }),
);

/** The stages of an approval policy: how many approvers, and who they are. */
export const stages = z.array(
  z.object({
    name: z.string(),
    count: z.int(),
    deciders: z.object({
      permissions: names,
      subjects: z.array(z.object({ issuer: z.string(), subject: z.string() })).optional(),
    }),
  }),
);

const policy = z.object({
  name: z.string(),
  risk: z.enum(RISKS).describe("The lowest risk of calls to which it applies."),
  distinctPeople: z.boolean(),
  stages,
  reasonRequired: z.enum(["never", "deny", "always"]),
  scopes: z.array(z.enum(APPROVAL_SCOPES)),
  decideBySeconds: z.int().optional(),
  executeBySeconds: z.int().optional(),
});

const jsonSchema = z.record(z.string(), z.unknown());

export const details = summary.extend({
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

export const catalog = z.object({
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
  sessions: z.int().optional(),
  connections: z.int().optional(),
  quarantined: names.optional().describe("Tools that the system changed, so that they are not called."),
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

export const systems = z.object({
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
        calls: z.object({ inFlight: z.int(), max: z.int() }).optional(),
        facts: z.record(z.string(), z.union([z.string(), z.number()])).optional(),
        verdicts: z.object({ allow: z.int(), deny: z.int(), ask: z.int() }),
        errors: z.int(),
        lastError: z.object({ at: z.iso.datetime(), reason: z.string() }).nullable(),
      }),
    )
    .optional()
    .describe("The points of `decisionPoints` in the configuration."),
  bundle: z
    .object({
      version: z.int().describe("Of the bundle in force."),
      digest: z.string(),
      state: z.enum(BUNDLE_STATES),
      offered: z.int().describe("Highest version that was offered and verified."),
      expires: z.string().describe("Until when its timestamp is valid."),
      lastError: z.string().nullable(),
      fault: z.string().nullable().describe("The reason of `lastError` in one word."),
    })
    .optional()
    .describe("The fleet's bundle at this service."),
  members: z
    .object({
      connected: z.int().describe("Instances whose stream from this hub is open."),
      bundles: z
        .array(z.object({ state: z.enum(BUNDLE_STATES), members: z.int() }))
        .describe("These instances, counted by the state of their bundle."),
    })
    .optional()
    .describe("The members of this hub. `GET /members` lists them."),
  tenants: z.int().optional().describe("Number of tenants of this service. `GET /tenants` lists them."),
  reasons: names.describe("Why calls are not accepted now; empty while they are."),
});

export const configuration = z.object({
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

export type ToolSummary = ReadonlyDeep<z.output<typeof summary>>;
export type ToolDetails = ReadonlyDeep<z.output<typeof details>>;
export type ToolCatalog = ReadonlyDeep<z.output<typeof catalog>>;
export type SystemsShown = ReadonlyDeep<z.output<typeof systems>>;
/** The service's part in a fleet: the bundle of a member, the members of a hub; and its tenants. */
export type FleetShown = Pick<SystemsShown, "bundle" | "members" | "tenants">;
/** A system, as operators see it. */
export type SystemShown = SystemsShown["systems"][number];
export type ConfigurationShown = ReadonlyDeep<z.output<typeof configuration>>;

/**
 * The parts of a service, for operators: its tools, the systems that they reach, and its configuration. Nothing here holds a
 * secret or the path of a file.
 */
export interface Inventory {
  tools(): ToolCatalog;
  /** Returns undefined when there is no tool of this name. */
  tool(name: string): ToolDetails | undefined;
  /** Asks the health services of systems that have one. The service itself adds its listeners, its fleet, and why it is not ready. */
  systems(): Promise<Omit<SystemsShown, keyof FleetShown | "listeners" | "reasons">>;
  configuration(): ConfigurationShown;
}
