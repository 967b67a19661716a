import type { z } from "zod";
import { type MemberListing, memberListing } from "../core/api/members.ts";
import { type TenantShown, tenantListing } from "../core/api/tenants.ts";
import { printableCell } from "../core/printable.ts";
import { printListing } from "./approvals/view.ts";
import { type ClientOptions, connectAndRequest, unknownAnswer } from "./client.ts";
import { print } from "./output.ts";

/** Number of characters that distinguishes configurations. */
const VERSION_CHARACTERS = 12;

function bundleCell(bundle: MemberListing["members"][number]["bundle"]): string {
  if (bundle === undefined) return "-";
  const { version, digest, state, fault } = bundle;
  return `${version} ${state}${fault === undefined ? "" : ` (${fault})`} ${digest}`;
}

/** Asks for a listing. Returns undefined when its JSON, or a problem, is printed already. */
async function listingOf<Listing>(
  options: ClientOptions,
  schema: z.ZodType<Listing>,
  request: { readonly path: string; readonly ifNotFound: string },
): Promise<Listing | undefined> {
  const { body } = await connectAndRequest(options, { method: "GET", ...request });
  if (options.json === true) {
    print.json(body ?? {});
    return undefined;
  }
  const read = schema.safeParse(body);
  return read.success ? read.data : unknownAnswer();
}

/** `stc fleet members`: lists the members of a hub. */
export async function listMembers(options: ClientOptions): Promise<void> {
  const listing = await listingOf(options, memberListing, {
    path: "/members",
    ifNotFound: "note: the service is not a hub: it has no hub.listen",
  });
  if (listing === undefined) return;
  const hasTenants = listing.members.some(({ tenant }) => tenant !== undefined);
  const rows = listing.members.map((member) =>
    [
      member.name,
      ...(hasTenants ? [member.tenant ?? "-"] : []),
      member.instance,
      member.version ?? "-",
      member.policyVersion?.slice(0, VERSION_CHARACTERS) ?? "-",
      bundleCell(member.bundle),
      member.connected ? "connected" : "away",
      member.lastContact,
      String(member.inFlight),
    ].map(printableCell),
  );
  printListing([
    [
      "MEMBER",
      ...(hasTenants ? ["TENANT"] : []),
      "INSTANCE",
      "VERSION",
      "CONFIGURATION",
      "BUNDLE",
      "STATE",
      "LAST CONTACT",
      "REQUESTS",
    ],
    ...rows,
  ]);
}

/** `stc tenants`: lists the tenants of a service. */
export async function listTenants(options: ClientOptions): Promise<void> {
  const listing = await listingOf(options, tenantListing, {
    path: "/tenants",
    ifNotFound: "note: the service has no tenants, or the token is for one of them",
  });
  if (listing === undefined) return;
  const rows = listing.tenants.map((tenant) =>
    [
      tenant.name,
      tenant.halted ? "halted" : "open",
      String(tenant.tools),
      String(tenant.callsInFlight),
      tenant.audit,
      configurationCell(tenant.configuration),
    ].map(printableCell),
  );
  printListing([["TENANT", "CALLS", "TOOLS", "IN FLIGHT", "AUDIT", "CONFIGURATION"], ...rows]);
}

function configurationCell(configuration: TenantShown["configuration"]): string {
  if (configuration === undefined) return "-";
  const { generation, since, problems } = configuration;
  return `${generation} since ${since}${problems > 0 ? `, last reload refused (problems: ${problems})` : ""}`;
}
