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

/** `stc fleet members`: lists the members of a hub. */
export async function listMembers(options: ClientOptions): Promise<void> {
  const { body } = await connectAndRequest(options, {
    method: "GET",
    path: "/members",
    ifNotFound: "note: the service is not a hub: it has no hub.listen",
  });
  if (options.json === true) return print.json(body ?? {});
  const read = memberListing.safeParse(body);
  if (!read.success) return unknownAnswer();
  const hasTenants = read.data.members.some(({ tenant }) => tenant !== undefined);
  const rows = read.data.members.map((member) =>
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
  const { body } = await connectAndRequest(options, {
    method: "GET",
    path: "/tenants",
    ifNotFound: "note: the service has no tenants, or the token is for one of them",
  });
  if (options.json === true) return print.json(body ?? {});
  const read = tenantListing.safeParse(body);
  if (!read.success) return unknownAnswer();
  const rows = read.data.tenants.map((tenant) =>
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
