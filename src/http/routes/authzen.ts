import { z } from "zod";
import { Refusal } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import type { AccessDecision, AccessQuestion } from "../../pipeline/evaluation.ts";
import { deniedAnswer, json } from "../answers.ts";
import { type Endpoint, type EndpointAnswer, type EndpointServices, endpointsWith } from "../endpoint.ts";
import type { ReceivedRequest } from "../messages.ts";
import { issuesOf } from "../request-guard.ts";

/** What these endpoints need of the service. */
export interface AccessPart {
  /** Decides whether an agent may call a tool; loads its code at the first use. */
  readonly evaluate: (question: AccessQuestion) => Promise<AccessDecision>;
}

const { endpoint } = endpointsWith<AccessPart>();

/**
 * Answers other programs' questions about access, as a policy decision point of the AuthZEN Authorization API 1.0. A question has
 * the form of the default mapping for MCP: the action `tools/call` on a resource of type `tool`.
 */

const EVALUATION = "/access/v1/evaluation";
const EVALUATIONS = "/access/v1/evaluations";
const METADATA = "/.well-known/authzen-configuration";
const EVALUATIONS_MAX = 100;
const MESSAGE_CHARACTERS_MAX = 200;
const REQUEST_ID = /^[\x20-\x7e]{1,128}$/;
/** All of them name a caller: a caller is an issuer and a subject, whatever it is. */
const SUBJECT_TYPES: ReadonlySet<string> = new Set(["identity", "user", "agent"]);

/** Unknown members are ignored, as the specification requires. */
const request = z.object({
  subject: z
    .object({
      type: z.string().describe("`identity`, `user` or `agent`."),
      id: z.string().describe("The agent's `sub`."),
      properties: z
        .object({
          token: z.string().optional().describe("The agent's token. Without it, only the configuration counts."),
          issuer: z.string().optional().describe("The agent's `iss`; needed where several issuers are for agents."),
        })
        .optional(),
    })
    .describe("Other properties are never believed."),
  action: z.object({ name: z.string(), properties: z.looseObject({}).optional() }).describe("`tools/call`."),
  resource: z
    .object({ type: z.string(), id: z.string(), properties: z.looseObject({}).optional() })
    .describe("Type `tool`; the tool's name."),
  context: z
    .object({ arguments: z.unknown().optional() })
    .optional()
    .describe("`arguments` of the call. Without them, the call counts as elevated."),
});

const several = request.partial().extend({
  evaluations: z
    .array(z.unknown())
    .max(EVALUATIONS_MAX)
    .optional()
    .describe("Questions. The members next to this list are their defaults."),
  options: z
    .object({
      evaluations_semantic: z
        .enum(["execute_all", "deny_on_first_deny", "permit_on_first_permit"])
        .default("execute_all"),
    })
    .optional(),
});

const decision = z.object({
  decision: z.boolean(),
  context: z.object({
    planned: z
      .literal(false)
      .describe("Nothing was planned or looked up: a call may still be refused or need approval."),
    code: z.string().optional().describe("Why not."),
    error: z.object({ status: z.int(), message: z.string() }).optional().describe("What is wrong with this question."),
  }),
});
const decisions = z.object({ evaluations: z.array(decision) });

type Decision = z.output<typeof decision>;
type Question = z.output<typeof request>;

const operators = {
  method: "POST",
  audience: "operators",
  permission: "policy:evaluate",
  headers: z.object({
    "X-Request-ID": z.string().regex(REQUEST_ID, "must be visible ASCII, at most 128 characters").optional(),
  }),
  audited: "policy.evaluated",
  adapt: asAuthZen,
  limits: { totalMax: 64, perCallerMax: 32 },
} as const;

type Services = EndpointServices & AccessPart;

export const endpoints: readonly Endpoint<AccessPart>[] = [
  endpoint({
    ...operators,
    path: EVALUATION,
    summary: "Whether an agent may call a tool (AuthZEN 1.0).",
    body: request,
    responses: { 200: { schema: decision } },
    async handle({ body }, services) {
      return answerOf(await decide(body, services));
    },
  }),
  endpoint({
    ...operators,
    path: EVALUATIONS,
    summary: "The same for several questions at once (AuthZEN 1.0).",
    body: several,
    responses: { 200: { schema: z.union([decisions, decision]) } },
    async handle({ body: { evaluations = [], options, ...defaults } }, services) {
      if (evaluations.length === 0) return answerOf(await decide(wholeQuestion(defaults), services));
      const ask = (written: unknown): Promise<Decision> => decideOne({ defaults, written }, services);
      const all = await decideAll(evaluations, ask, options?.evaluations_semantic);
      return json(200, { evaluations: all }, { recorded: countsOf(all) });
    },
  }),
  endpoint({
    method: "GET",
    path: METADATA,
    listeners: ["agents", "console"],
    summary: "Where questions about access are answered (AuthZEN 1.0).",
    audience: "anybody",
    audited: "no",
    adapt: asAuthZen,
    handle({ raw }, services) {
      // Where operators are not answered, neither are these questions.
      const isAnswered = services.routes.some(({ path }) => path === EVALUATION);
      if (!isAnswered) return deniedAnswer(404, "ROUTE_NOT_FOUND", "There is no such route.");
      const base = baseUrlOf(raw, services);
      return json(200, {
        policy_decision_point: base,
        access_evaluation_endpoint: `${base}${EVALUATION}`,
        access_evaluations_endpoint: `${base}${EVALUATIONS}`,
      });
    },
  }),
];

function answerOf(decided: Decision): EndpointAnswer {
  return json(200, decided, { recorded: countsOf([decided]) });
}

function countsOf(decided: readonly Decision[]) {
  return { evaluations: decided.length, allowed: decided.filter((one) => one.decision).length };
}

/** @throws {Refusal} MALFORMED_REQUEST */
function wholeQuestion(written: unknown): Question {
  const parsed = request.safeParse(written);
  if (parsed.success) return parsed.data;
  throw new Refusal("MALFORMED_REQUEST", "The body is not valid for this route.", {
    details: { issues: issuesOf(parsed.error) },
  });
}

interface WrittenQuestion {
  readonly defaults: object;
  readonly written: unknown;
}

/** Decides one of several questions. A question that is not valid is denied; its members replace the defaults as a whole. */
async function decideOne({ defaults, written }: WrittenQuestion, services: Services): Promise<Decision> {
  const parsed = request.safeParse(isTable(written) ? { ...defaults, ...written } : written);
  if (parsed.success) return decide(parsed.data, services);
  const [issue] = parsed.error.issues;
  const message = `${issue?.path.join(".") ?? ""}: ${issue?.message ?? "not valid"}`.slice(0, MESSAGE_CHARACTERS_MAX);
  return { decision: false, context: { planned: false, error: { status: 400, message } } };
}

type Semantic = "execute_all" | "deny_on_first_deny" | "permit_on_first_permit";

/** Returns the decisions in the order of the questions, up to the first one that ends the evaluation. */
async function decideAll(
  questions: readonly unknown[],
  ask: (written: unknown) => Promise<Decision>,
  semantic: Semantic = "execute_all",
): Promise<readonly Decision[]> {
  if (semantic === "execute_all") return Promise.all(questions.map(ask));
  const last = semantic === "permit_on_first_permit";
  const all: Decision[] = [];
  for (const question of questions) {
    const decided = await ask(question);
    all.push(decided);
    if (decided.decision === last) break;
  }
  return all;
}

async function decide(question: Question, services: Services): Promise<Decision> {
  const code = await codeOf(question, services);
  services.metrics.observeEvaluation(code ?? "OK");
  return code === undefined
    ? { decision: true, context: { planned: false } }
    : { decision: false, context: { planned: false, code } };
}

/** Returns why the call is denied; undefined when it is not. */
async function codeOf(question: Question, services: Services): Promise<string | undefined> {
  const { subject, action, resource, context } = question;
  const isKnown = action.name === "tools/call" && resource.type === "tool" && SUBJECT_TYPES.has(subject.type);
  if (!isKnown) return "UNSUPPORTED";
  const { token, issuer } = subject.properties ?? {};
  try {
    const args = context?.arguments;
    const decided = await services.evaluate({ tool: resource.id, subject: subject.id, issuer, token, args });
    return decided.isAllowed ? undefined : decided.code;
  } catch (error) {
    services.logError(error);
    return "INTERNAL";
  }
}

/** Repeats the identifier of the request, and answers 400 for a wrong media type, as the specification requires. */
function asAuthZen(answer: EndpointAnswer, { headers }: ReceivedRequest): EndpointAnswer {
  const { "x-request-id": id } = headers;
  const status = answer.status === 415 ? 400 : answer.status;
  if (typeof id !== "string" || !REQUEST_ID.test(id)) return { ...answer, status };
  return { ...answer, status, headers: { ...answer.headers, "x-request-id": id } };
}

/** Returns the URL under which clients know the service: the configured one, else that of the request, whose Host is allowed. */
function baseUrlOf({ headers, socket }: ReceivedRequest, { resource }: EndpointServices): string {
  if (resource !== undefined) return new URL(resource).origin;
  const isEncrypted = "encrypted" in socket && socket.encrypted === true;
  return `${isEncrypted ? "https" : "http"}://${headers.host ?? "localhost"}`;
}
