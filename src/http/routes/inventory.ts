import { z } from "zod";
import {
  type ConfigurationHistoryRead,
  configurationVersion,
  configurationVersions,
} from "../../core/api/configuration-versions.ts";
import { catalog, configuration, details, type FleetShown, type Inventory, systems } from "../../core/api/inventory.ts";
import { Refusal } from "../../core/errors.ts";
import { deniedAnswer, json } from "../answers.ts";
import type { NotReady } from "../endpoint.ts";
import { type Endpoint, endpointsWith, type ListenerState } from "../endpoint.ts";

/** What these endpoints need of the service. */
export interface InventoryPart {
  /** Returns the tools, systems and settings in use; loads their code at the first use. */
  readonly inventory: () => Promise<Inventory>;
  /** The configurations that were in use. */
  readonly configurationVersions: ConfigurationHistoryRead;
  readonly notReady: () => readonly NotReady[];
  /** Returns the open listeners. */
  readonly listening: () => readonly ListenerState[];
  readonly fleet: () => FleetShown;
}

const { endpoint } = endpointsWith<InventoryPart>();

/** The parts of a service, for operators: its tools, the systems that they reach, and its configuration. */

/** `policyVersion`: hex SHA-256. */
const policyVersion = z.string().regex(/^[0-9a-f]{64}$/, "must be a policyVersion: 64 hexadecimal digits");

const operators = { method: "GET", audience: "operators", query: z.strictObject({}) } as const;

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
      "The systems that tools reach: state, addresses, TLS, certificates, confinement; the service's listeners and fleet.",
    permission: "metrics:read",
    responses: { 200: { schema: systems } },
    audited: "systems.read",
    async handle(_request, { inventory, notReady, listening, fleet }) {
      const listeners = (listening?.() ?? []).map(listenerShown);
      return json(200, { ...(await (await inventory()).systems()), ...fleet(), listeners, reasons: notReady() });
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
  endpoint({
    ...operators,
    path: "/configuration/versions",
    summary: "The configurations that this replica has used: since when, who loaded them, and what each changed.",
    permission: "configuration:read",
    responses: { 200: { schema: configurationVersions } },
    audited: "configuration.read",
    async handle(_request, { configurationVersions: versions }) {
      return json(200, versions.list());
    },
  }),
  endpoint({
    ...operators,
    path: "/configuration/versions/:policyVersion",
    summary: "One configuration that was in use, compared with the one before or with another.",
    permission: "configuration:read",
    params: z.object({ policyVersion }),
    query: z.strictObject({ against: policyVersion.optional() }),
    responses: { 200: { schema: configurationVersion } },
    errors: { 404: "CONFIGURATION_NOT_FOUND" },
    audited: "configuration.read",
    async handle({ params, query: { against } }, { configurationVersions: versions }) {
      const found = versions.version(params.policyVersion, against);
      if (found === undefined) return deniedAnswer(404, "CONFIGURATION_NOT_FOUND", NOT_KEPT);
      return json(200, found, { recorded: { policyVersion: params.policyVersion } });
    },
  }),
];

const NOT_KEPT =
  "This replica has no such version: GET /configuration/versions lists those that it has kept. Another replica may have used it.";

function listenerShown({ certificateExpiresAt: at, ...state }: ListenerState) {
  return { ...state, certificateExpiresAt: at === undefined ? null : new Date(at).toISOString() };
}
