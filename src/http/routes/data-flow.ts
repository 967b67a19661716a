import { z } from "zod";
import { Refusal } from "../../core/errors.ts";
import type { DataFlowPolicy } from "../../data-flow/flow.ts";
import type { LabelRow } from "../../data-flow/label-rows.ts";
import type { Snapshot } from "../../pipeline/proxy.ts";
import { json } from "../answers.ts";
import { identityOf, REASON_CHARACTERS_MAX } from "../approval-json.ts";
import { type Endpoint, type EndpointServices, endpointsWith } from "../endpoint.ts";
import { inState } from "../in-state.ts";

/** What these endpoints need of the service. */
export interface DataFlowPart {
  /** Returns what follows data in the configuration in use; undefined while that is off. */
  readonly dataFlow: () => DataFlowPolicy | undefined;
  readonly detector: () => Snapshot["detector"];
}

const { endpoint } = endpointsWith<DataFlowPart>();

const UNANSWERED = "The database does not answer: look with GET /data-flow what is known, then repeat.";
const ISSUER_CHARACTERS_MAX = 2_048;
const SUBJECT_CHARACTERS_MAX = 512;
const REQUEST_CHARACTERS_MAX = 65_536;

/** Both databases keep such a text unchanged. */
const nameOf = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .refine((text) => text.isWellFormed() && !text.includes("\0"), "must be text without NUL");

const caller = { issuer: nameOf(ISSUER_CHARACTERS_MAX), subject: nameOf(SUBJECT_CHARACTERS_MAX) } as const;

const operators = { audience: "operators", recordsForgeries: true } as const;

/** What callers have read, as far as rules about data flow need it. */
export const endpoints: readonly Endpoint<DataFlowPart>[] = [
  endpoint({
    method: "GET",
    path: "/data-flow",
    summary: "What a caller has read: its labels, since when, until when, and the call that earned each.",
    ...operators,
    permission: "data-flow:read",
    query: z.strictObject(caller),
    audited: "dataFlow.read",
    async handle({ query: { issuer, subject } }, services) {
      const labels = await inFlowState(services, (flow) => flow.labelsOf({ issuer, subject }));
      return json(200, { caller: { issuer, subject }, labels: labels.map(labelJson) });
    },
  }),
  endpoint({
    method: "POST",
    path: "/data-flow/clear",
    summary: "Forget what a caller has read: its labels and where values came from.",
    ...operators,
    permission: "data-flow:write",
    body: z.strictObject({
      ...caller,
      reason: nameOf(REASON_CHARACTERS_MAX).refine((text) => text.trim() !== "", "must say why"),
    }),
    audited: "change",
    async handle({ caller: operator, body: { issuer, subject, reason } }, services) {
      const by = identityOf(operator);
      const labels = await inFlowState(services, async (flow) => {
        const before = (await flow.labelsOf({ issuer, subject })).map(({ label }) => label);
        await services.journal({
          type: "dataFlow.cleared",
          issuer,
          subject,
          labels: [...new Set(before)],
          reason: services.detector().filterSecrets(reason).text,
          sub: by.subject,
          iss: by.issuer,
        });
        await flow.clear({ issuer, subject });
        return before;
      });
      return json(200, { caller: { issuer, subject }, cleared: [...new Set(labels)] });
    },
  }),
  endpoint({
    method: "POST",
    path: "/data-flow/requests",
    summary: "Tell what the user asked a caller to do: destinations that the text names are vouched for.",
    ...operators,
    permission: "data-flow:vouch",
    body: z.strictObject({ ...caller, text: z.string().min(1).max(REQUEST_CHARACTERS_MAX) }),
    audited: "change",
    async handle({ caller: operator, body: { issuer, subject, text } }, services) {
      const by = identityOf(operator);
      await inFlowState(services, async (flow) => {
        const characters = text.length;
        // A member of a hub refuses here, before its journal has a text that does not count.
        await flow.labelsOf({ issuer, subject });
        await services.journal({
          type: "dataFlow.requested",
          issuer,
          subject,
          characters,
          sub: by.subject,
          iss: by.issuer,
        });
        await flow.vouch({ issuer, subject }, text);
      });
      return json(200, { caller: { issuer, subject } });
    },
  }),
];

function labelJson({ session, label, since, until, tool, traceId, stored }: LabelRow) {
  return {
    // `lost`: fingerprints of untrusted text are missing, so that destinations of unknown origin ask.
    label,
    ...(session !== "" && { session }),
    since: new Date(since).toISOString(),
    until: new Date(until).toISOString(),
    ...(tool !== "" && { tool, traceId }),
    // The answer held a text that a caller had stored.
    ...(stored !== undefined && { stored }),
  };
}

/** Rejects with POLICY_STATE_UNAVAILABLE when the state does not answer; the operators' log has the cause. */
export async function inFlowState<T>(
  { dataFlow, logError }: Pick<EndpointServices, "logError"> & Pick<DataFlowPart, "dataFlow">,
  work: (flow: DataFlowPolicy) => Promise<T>,
): Promise<T> {
  const flow = dataFlow();
  if (flow === undefined) {
    const message =
      "Data flow is off: add the section dataFlow to the configuration, or declare dataFlow in a manifest.";
    throw new Refusal("MALFORMED_REQUEST", message);
  }
  return inState({ logError }, UNANSWERED, () => work(flow));
}
