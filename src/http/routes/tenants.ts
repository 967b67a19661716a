import { z } from "zod";
import { type TenantListing, type TenantShown, tenantListing } from "../../core/api/tenants.ts";
import { json } from "../answers.ts";
import { type Endpoint, endpointsWith } from "../endpoint.ts";

/** The part of the service that this endpoint uses. */
export interface TenantsPart {
  readonly tenants: () => readonly TenantShown[];
}

const { endpoint } = endpointsWith<TenantsPart>();

/** The tenants of a service, for its operators. A tenant itself has no such endpoint. */
export const endpoints: readonly Endpoint<TenantsPart>[] = [
  endpoint({
    method: "GET",
    path: "/tenants",
    summary: "The tenants of this service: tools, calls in flight, state of audit and configuration, whether halted.",
    audience: "operators",
    permission: "tenants:read",
    onlyWith: "`tenants`",
    query: z.strictObject({}),
    responses: { 200: { schema: tenantListing } },
    audited: "tenants.read",
    handle: (_request, { tenants }) => json(200, { tenants: tenants() } satisfies TenantListing),
  }),
];
