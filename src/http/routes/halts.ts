import { z } from "zod";
import {
  type HaltLifted,
  type HaltListing,
  type HaltSet,
  haltLifted,
  haltListing,
  haltSet,
} from "../../core/api/halts.ts";
import { Refusal } from "../../core/errors.ts";
import { hint } from "../../core/nearest.ts";
import type { CallHalt, HaltTarget } from "../../halts/halt.ts";
import { haltJson, listedJson } from "../../halts/halt.ts";
import type { Halts } from "../../halts/halts.ts";
import type { Snapshot } from "../../pipeline/proxy.ts";
import type { Registry } from "../../pipeline/registry.ts";
import { deniedAnswer, json } from "../answers.ts";
import { identityOf, REASON_CHARACTERS_MAX } from "../approval-json.ts";
import { type Endpoint, endpointsWith } from "../endpoint.ts";
import { inState } from "../in-state.ts";

const UNANSWERED = "The database does not answer: look with GET /halts what is in force, then repeat.";

/** What these endpoints need of the service. */
export interface HaltsPart {
  readonly halts: Halts;
  readonly registry: Registry;
  readonly detector: () => Snapshot["detector"];
  /** Returns the tenants, which halts may name; undefined in a service that has none, and in a tenant. */
  readonly tenants: (() => readonly { readonly name: string }[]) | undefined;
}

const { endpoint } = endpointsWith<HaltsPart>();

/** A year. */
const FOR_SECONDS_MAX = 31_536_000;
const NAME_CHARACTERS_MAX = 256;
const ISSUER_CHARACTERS_MAX = 2_048;

/** Both databases keep such a text unchanged. */
const wellFormed = (text: string): boolean => text.isWellFormed() && !text.includes("\0");
const nameOf = (max: number) => z.string().min(1).max(max).refine(wellFormed, "must be text without NUL");

const shared = {
  /** Why, for operators and the audit; agents do not see it. */
  reason: z
    .string()
    .min(1)
    .max(REASON_CHARACTERS_MAX)
    .refine((text) => wellFormed(text) && text.trim() !== "", "must say why"),
  /** When the halt ends by itself. */
  until: z.iso.datetime({ offset: true, error: "must be a time such as 2026-02-16T12:00:00Z" }).optional(),
  /** How long the halt lasts, instead of `until`. */
  forSeconds: z.int().min(1).max(FOR_SECONDS_MAX).optional(),
  /** Ends running calls, too: a change that is running is then OUTCOME_UNKNOWN. */
  cancelRunning: z.boolean().optional(),
  /** Stops calls of this tenant only. For operators of a service that has tenants. */
  tenant: nameOf(NAME_CHARACTERS_MAX).optional(),
} as const;

const haltBody = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("all"), ...shared }),
  z.strictObject({ kind: z.literal("tool"), tool: nameOf(NAME_CHARACTERS_MAX), ...shared }),
  z.strictObject({ kind: z.literal("system"), system: nameOf(NAME_CHARACTERS_MAX), ...shared }),
  z.strictObject({
    kind: z.literal("caller"),
    issuer: nameOf(ISSUER_CHARACTERS_MAX),
    subject: nameOf(2 * NAME_CHARACTERS_MAX),
    ...shared,
  }),
  z.strictObject({ kind: z.literal("session"), session: z.string().regex(/^[\x21-\x7e]{1,132}$/), ...shared }),
]);

type HaltBody = z.output<typeof haltBody>;

const operators = { audience: "operators", recordsForgeries: true } as const;

/** The kill switch: operators stop calls of a tool, a system, a caller or a session, or all of them. */
export const endpoints: readonly Endpoint<HaltsPart>[] = [
  endpoint({
    method: "GET",
    path: "/halts",
    summary: "Halts in force. In a tenant, those of the service that stop its calls are among them.",
    ...operators,
    permission: "halts:read",
    responses: { 200: { schema: haltListing } },
    audited: "halts.listed",
    async handle(_request, { halts, logError, tenants }) {
      // What this process knows is in force here, also when the database does not answer.
      await halts.refresh().catch(logError);
      const names = tenants?.().map(({ name }) => name);
      const listing: HaltListing = { halts: halts.listed.map(listedJson), state: halts.describe() };
      return json(200, { ...listing, ...(names !== undefined && { tenants: names }) });
    },
  }),
  endpoint({
    method: "POST",
    path: "/halts",
    summary:
      "Halt calls: of a tool, a system, a caller or a session, or all of them; those of one tenant, if it is named.",
    ...operators,
    permission: "halts:write",
    body: haltBody,
    responses: { 201: { schema: haltSet } },
    audited: "change",
    async handle({ caller, body }, services) {
      const { reason, until, forSeconds, cancelRunning = false } = body;
      if (until !== undefined && forSeconds !== undefined)
        throw new Refusal("MALFORMED_REQUEST", "until, forSeconds: give one of them.");
      const target = targetOf(body, services);
      const set = await inState(services, UNANSWERED, () =>
        services.halts.set({
          target,
          cancelRunning,
          by: identityOf(caller),
          reason: services.detector().filterSecrets(reason).text,
          until: until === undefined ? undefined : Date.parse(until),
          forMs: forSeconds === undefined ? undefined : forSeconds * 1_000,
        }),
      );
      if (set.outcome === "past") throw new Refusal("MALFORMED_REQUEST", "until: must be in the future.");
      if (set.outcome === "too_many") {
        throw new Refusal("MALFORMED_REQUEST", "There are too many halts: lift some, or halt all calls.");
      }
      return json(201, { halt: haltJson(set.halt), notes: notesOn(set.halt, services) } satisfies HaltSet);
    },
  }),
  endpoint({
    method: "DELETE",
    path: "/halts/:id",
    summary: "Lift a halt.",
    ...operators,
    permission: "halts:write",
    params: z.object({ id: z.string().max(128).refine(wellFormed, "must be text without NUL") }),
    responses: { 200: { schema: haltLifted } },
    errors: { 403: "HALT_OF_SERVICE", 404: "HALT_NOT_FOUND" },
    audited: "change",
    async handle({ caller, params: { id } }, services) {
      if (services.halts.listed.some((halt) => halt.id === id && halt.ofService !== undefined)) {
        const message = "The service's operators have set this halt for its tenants: only they can lift it.";
        return deniedAnswer(403, "HALT_OF_SERVICE", message);
      }
      const lifted = await inState(services, UNANSWERED, () => services.halts.lift(id, identityOf(caller)));
      if (lifted === undefined) return deniedAnswer(404, "HALT_NOT_FOUND", "No halt with this id is in force.");
      return json(200, { halt: { ...haltJson(lifted), lifted: true } } satisfies HaltLifted);
    },
  }),
];

/** An alias names its tool. */
function targetOf(body: HaltBody, { registry, tenants }: HaltsPart): HaltTarget {
  const { tenant } = body;
  if (tenant !== undefined && tenants === undefined) {
    throw new Refusal("MALFORMED_REQUEST", "tenant: only operators of a service that has tenants can name one.");
  }
  if (body.kind === "all") return { kind: "all", issuer: "", value: "", tenant };
  if (body.kind === "caller") return { kind: "caller", issuer: body.issuer, value: body.subject, tenant };
  if (body.kind === "tool") {
    const value = registry.find(body.tool).registered?.tool.name ?? body.tool;
    return { kind: "tool", issuer: "", value, tenant };
  }
  return body.kind === "system"
    ? { kind: "system", issuer: "", value: body.system, tenant }
    : { kind: "session", issuer: "", value: body.session, tenant };
}

/** A halt must work in an emergency, and another replica may know the name: an unknown one is a note. */
function notesOn({ target }: CallHalt, { registry, tenants }: HaltsPart): readonly string[] {
  const { kind, value, tenant } = target;
  if (tenant !== undefined) return noteOn("tenant", tenant, tenants?.().map(({ name }) => name) ?? []);
  if (kind !== "tool" && kind !== "system") return [];
  // The halt also stops calls of tenants, whose tools and systems are not known here.
  if (tenants !== undefined) return [];
  const tools = registry.list().map(({ tool }) => tool);
  return noteOn(
    kind,
    value,
    kind === "tool" ? tools.map(({ name }) => name) : tools.map(({ target: { system } }) => system),
  );
}

function noteOn(kind: string, name: string, all: readonly string[]): readonly string[] {
  const known = new Set(all);
  if (known.has(name)) return [];
  return [`no ${kind} of this service is called ${name}${hint(name, known)}: the halt is in force all the same`];
}
