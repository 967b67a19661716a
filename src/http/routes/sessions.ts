import { z } from "zod";
import type { ReceiptedApprovals } from "../../approvals/receipts/receipts.ts";
import { type Json, MODES } from "../../core/types.ts";
import { json } from "../answers.ts";
import {
  grantForOperator,
  grantForOwner,
  identityOf,
  idParams,
  inStore,
  isWholeOwner,
  notFound,
  ownerIn,
  ownerMembers,
  sessionForOperator,
  sessionForOwner,
  WHOLE_OWNER,
} from "../approval-json.ts";
import { type Endpoint, endpointsWith } from "../endpoint.ts";
import { SESSION_ANSWER } from "../openapi.ts";

/** What these endpoints need of the service. */
export interface SessionsPart {
  readonly approvals: ReceiptedApprovals;
}

const { endpoint } = endpointsWith<SessionsPart>();

const LISTED_MAX = 500;
const MODE_SECONDS_MAX = 604_800;
const modeBody = z
  .strictObject({
    mode: z.enum(MODES),
    expiresInSeconds: z.int().min(1).max(MODE_SECONDS_MAX),
    ...ownerMembers,
  })
  .refine(isWholeOwner, WHOLE_OWNER);

const ownerQuery = z.strictObject(ownerMembers).refine(isWholeOwner, WHOLE_OWNER);

/** An id that the service generated, or a token's `sid` of up to 128 characters with the prefix `sid:`. */
const sessionParams = z.object({ id: z.string().regex(/^[\x21-\x7e]{1,132}$/) });

const noSession = () => notFound("session");
const noGrant = () => notFound("grant");

const managers = { audience: "operators", recordsForgeries: true, onlyWith: "`approvals`" } as const;

/** Sessions and their modes: agents open and end their own, operators manage all. */
const sessions: readonly Endpoint<SessionsPart>[] = [
  endpoint({
    method: "POST",
    path: "/sessions",
    summary: "Open a session.",
    audience: "agents",
    onlyWith: "`approvals`",
    responses: { 201: { schema: SESSION_ANSWER } },
    audited: "change",
    async handle({ caller }, services) {
      const session = await inStore(services, () => services.approvals.openSession(identityOf(caller)));
      return json(201, { session: sessionForOwner(session) });
    },
  }),
  endpoint({
    method: "GET",
    path: "/sessions",
    summary: "Sessions and their modes, of one caller or of all.",
    ...managers,
    permission: "modes:manage",
    query: ownerQuery,
    audited: "sessions.listed",
    async handle({ query }, services) {
      const all = await inStore(services, () => services.approvals.listSessions(ownerIn(query)));
      return json(200, listed("sessions", all, sessionForOperator));
    },
  }),
  endpoint({
    method: "PUT",
    path: "/sessions/:id/mode",
    summary: "Set a session's mode.",
    ...managers,
    permission: "modes:manage",
    params: sessionParams,
    notFound: noSession,
    body: modeBody,
    audited: "change",
    async handle({ caller, params: { id }, body }, services) {
      const { mode, expiresInSeconds, ...named } = body;
      const requester = ownerIn(named);
      const until = services.clock() + expiresInSeconds * 1000;
      const session = await inStore(services, () =>
        services.approvals.setMode({ id, requester, mode, until, by: identityOf(caller) }),
      );
      if (session === undefined) throw noSession();
      return json(200, { session: sessionForOperator(session) });
    },
  }),
  endpoint({
    method: "DELETE",
    path: "/sessions/:id",
    summary: "End a session. Operators name its owner where several callers have a session of this id.",
    audience: "either",
    permission: "modes:manage",
    onlyWith: "`approvals`",
    params: sessionParams,
    notFound: noSession,
    query: ownerQuery,
    audited: "change",
    async handle({ tokenAudience, caller, params: { id }, query }, services) {
      const { approvals } = services;
      const by = identityOf(caller);
      const isOperator = tokenAudience === "operators";
      const isTheirs = isOperator || (await inStore(services, () => approvals.findSession(id, by))) !== undefined;
      const owner = isOperator ? ownerIn(query) : by;
      if (!isTheirs || !(await inStore(services, () => approvals.endSession(id, by, owner)))) throw noSession();
      return json(200, { session: { id, ended: true } });
    },
  }),
];

/** Grants, which are remembered approvals: agents see their own, operators see and revoke all. */
const grants: readonly Endpoint<SessionsPart>[] = [
  endpoint({
    method: "GET",
    path: "/grants",
    summary: "Remembered approvals: the caller's own, or for operators those of one caller or of all.",
    audience: "either",
    permission: "grants:manage",
    onlyWith: "`approvals`",
    query: ownerQuery,
    audited: "grants.listed",
    async handle({ tokenAudience, caller, query }, services) {
      const isAgent = tokenAudience === "agents";
      const requester = isAgent ? identityOf(caller) : ownerIn(query);
      const found = await inStore(services, () => services.approvals.listGrants({ requester }));
      return json(200, listed("grants", found, isAgent ? grantForOwner : grantForOperator));
    },
  }),
  endpoint({
    method: "DELETE",
    path: "/grants/:id",
    summary: "Revoke a remembered approval.",
    ...managers,
    permission: "grants:manage",
    params: idParams,
    notFound: noGrant,
    audited: "change",
    async handle({ caller, params: { id } }, services) {
      if (!(await inStore(services, () => services.approvals.revokeGrant(id, identityOf(caller))))) throw noGrant();
      return json(200, { grant: { id, revoked: true } });
    },
  }),
];

export const endpoints: readonly Endpoint<SessionsPart>[] = [...sessions, ...grants];

function listed<T>(name: string, all: readonly T[], show: (one: T) => Json): Json {
  return { [name]: all.slice(0, LISTED_MAX).map(show), ...(all.length > LISTED_MAX && { truncated: true }) };
}
