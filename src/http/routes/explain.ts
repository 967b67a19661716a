import { z } from "zod";
import { type Explanation, explanation } from "../../core/api/explain.ts";
import { isTable } from "../../core/json.ts";
import { MODES, type Mode } from "../../core/types.ts";
import { json } from "../answers.ts";
import { type Endpoint, endpointsWith } from "../endpoint.ts";

/** Who would make a call that an operator asks about: the bearer of a token, or a subject as the operator states it. */
interface StatedCaller {
  readonly token?: string | undefined;
  readonly sub?: string | undefined;
  readonly iss?: string | undefined;
  readonly permissions?: readonly string[] | undefined;
}

interface ExplainedCall {
  readonly tool: string;
  readonly args: unknown;
  readonly session?: string | undefined;
  readonly mode?: Mode | undefined;
  /** Whether planning may ask the target. */
  readonly lookups: boolean;
}

/** What these endpoints need of the service. */
export interface ExplainPart {
  /** Returns what the policies in use say about a call; loads its code at the first use. */
  readonly explain: (caller: StatedCaller, call: ExplainedCall) => Promise<Explanation>;
}

const { endpoint } = endpointsWith<ExplainPart>();

const name = z.string().min(1).max(256);
const visible = z.string().regex(/^[\x21-\x7e]{1,128}$/);

const body = z
  .strictObject({
    tool: name,
    args: z
      .custom<Readonly<Record<string, unknown>>>(isTable, "must be an object")
      .meta({ type: "object" })
      .default({}),
    sub: name.optional().describe("Subject of the caller."),
    iss: z.string().max(512).optional().describe("Issuer of the caller's token; default: the only one of agents."),
    permissions: z
      .array(visible)
      .max(256)
      .optional()
      .describe("Default: those that the configuration gives the subject."),
    token: z.string().max(8_192).optional().describe("A token of an agent, instead of the subject."),
    session: name.optional().describe("Session that the call names: its halts, mode and grants count."),
    mode: z
      .enum(MODES)
      .optional()
      .describe("Mode of the session; default: what operators have set for it, otherwise the configuration's."),
    lookups: z.boolean().default(false).describe("Whether planning may ask the target."),
  })
  .refine(({ sub, iss, permissions, token }) => token === undefined || (sub ?? iss ?? permissions) === undefined, {
    message: "names the caller twice: send token, or sub, iss and permissions",
  });

export const endpoints: readonly Endpoint<ExplainPart>[] = [
  endpoint({
    method: "POST",
    path: "/explain",
    summary: "What every policy says about a call, and what would have to change. Runs nothing.",
    audience: "operators",
    permission: "policy:explain",
    body,
    responses: { 200: { schema: explanation } },
    limits: { totalMax: 8, perCallerMax: 2 },
    audited: "policy.explained",
    async handle({ body: { tool, args, session, mode, lookups, ...caller } }, { explain }) {
      const explained = await explain(caller, { tool, args, session, mode, lookups });
      const { token, sub } = caller;
      const recorded = { tool, lookups, ...(sub !== undefined && { of: sub }), byToken: token !== undefined };
      return json(200, explained, { recorded });
    },
  }),
];
