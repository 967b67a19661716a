import { z } from "zod";
import { type MemberListing, memberListing } from "../../core/api/members.ts";
import type { EpochMs } from "../../core/types.ts";
import { json } from "../answers.ts";
import { iso } from "../approval-json.ts";
import { type Endpoint, endpointsWith } from "../endpoint.ts";

/** An instance of a member, as a hub knows it. */
interface KnownMember {
  readonly name: string;
  readonly tenant?: string | undefined;
  readonly instance: string;
  readonly version?: string | undefined;
  readonly policyVersion?: string | undefined;
  readonly bundle?: MemberListing["members"][number]["bundle"];
  readonly lastContact: EpochMs;
  readonly isConnected: boolean;
  readonly inFlight: number;
}

/** The part of the service that this endpoint uses. */
export interface MembersPart {
  readonly hub: { members(): readonly KnownMember[] };
}

const { endpoint } = endpointsWith<MembersPart>();

/** Members of a hub, for operators. */
export const endpoints: readonly Endpoint<MembersPart>[] = [
  endpoint({
    method: "GET",
    path: "/members",
    summary:
      "The members that this hub has heard of within the last hour: tenant, version, configuration, bundle, last contact. A tenant's operators see its members.",
    audience: "operators",
    permission: "metrics:read",
    onlyWith: "`hub.listen`",
    query: z.strictObject({}),
    responses: { 200: { schema: memberListing } },
    audited: "members.read",
    handle(_request, { hub }) {
      const members = hub.members().map(({ isConnected, lastContact, ...member }) => ({
        ...member,
        connected: isConnected,
        lastContact: iso(lastContact),
      }));
      return json(200, { members } satisfies MemberListing);
    },
  }),
];
