import { z } from "zod";
import { catalog, configuration, details, type Inventory, systems } from "../../core/api/inventory.ts";
import { Refusal } from "../../core/errors.ts";
import { json } from "../answers.ts";
import type { NotReady } from "../endpoint.ts";
import { type Endpoint, endpointsWith, type ListenerState } from "../endpoint.ts";

/** What these endpoints need of the service. */
export interface InventoryPart {
  /** Returns the tools, systems and settings in use; loads their code at the first use. */
  readonly inventory: () => Promise<Inventory>;
  readonly notReady: () => readonly NotReady[];
  /** Returns the open listeners. */
  readonly listening: () => readonly ListenerState[];
}

const { endpoint } = endpointsWith<InventoryPart>();

/** The parts of a service, for operators: its tools, the systems that they reach, and its configuration. */

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
