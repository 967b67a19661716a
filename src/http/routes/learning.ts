import { z } from "zod";
import { WAIT_SECONDS_MAX } from "../../core/call-fields.ts";
import { Refusal } from "../../core/errors.ts";
import type { RegisteredTool } from "../../core/evidence.ts";
import type { CallerContext } from "../../core/types.ts";
import type { Learning } from "../../pipeline/learning/learning.ts";
import type { Registry } from "../../pipeline/registry.ts";
import { deniedAnswer, json } from "../answers.ts";
import { type AdmittedRequest, type Endpoint, type EndpointAnswer, endpointsWith } from "../endpoint.ts";
import { record } from "../guard.ts";

/** What these endpoints need of the service. */
export interface LearningPart {
  readonly registry: Registry;
  /** Returns the observations of answers; loads their code at the first use. */
  readonly learning: () => Promise<Learning>;
}

const { endpoint } = endpointsWith<LearningPart>();

const SECONDS_MAX = 3_600;
const ANSWERS_MAX = 1_000;

/** A query parameter is always text. */
const wait = z
  .string()
  .regex(/^\d{1,2}$/, "must be a whole number")
  .transform(Number)
  .pipe(z.int().max(WAIT_SECONDS_MAX))
  .default(0);

const operators = {
  path: "/tools/:name/learning",
  audience: "operators",
  permission: "tools:learn",
  recordsForgeries: true,
  params: z.object({ name: z.string() }),
} as const;

/** Observations of a tool's answers by operators: shapes and kinds, never values. */
export const endpoints: readonly Endpoint<LearningPart>[] = [
  endpoint({
    ...operators,
    method: "POST",
    summary: "Start to observe what a tool's answers look like.",
    body: z.strictObject({
      seconds: z.int().min(1).max(SECONDS_MAX).default(600),
      answers: z.int().min(1).max(ANSWERS_MAX).default(50),
      describe: z.boolean().default(false),
    }),
    responses: { 201: {} },
    errors: { 409: "LEARNING_IN_PROGRESS" },
    audited: "change",
    async handle({ caller, params: { name }, body }, services) {
      const registered = toolOf(services.registry, name);
      const tool = registered.tool.name;
      const learning = await services.learning();
      const problem = learning.start(registered, body);
      if (problem === "observed") {
        return deniedAnswer(409, "LEARNING_IN_PROGRESS", "This tool is being observed. Read the result, or stop it.");
      }
      if (problem === "full") {
        const message = "Too many tools are being observed. Stop one, or wait until it has ended.";
        throw new Refusal("OVERLOADED", message, { details: { limit: "learning" } });
      }
      try {
        await record(services, { type: "learning.started", tool, ...body, ...actor(caller) });
      } catch (error) {
        learning.stop(tool);
        throw error;
      }
      return json(201, { learning: learning.read(tool, registered) });
    },
  }),
  endpoint({
    ...operators,
    method: "GET",
    summary: "What was observed of a tool's answers, and the output policy that this suggests.",
    errors: { 404: "LEARNING_NOT_FOUND" },
    audited: "learning.read",
    async handle({ params: { name } }, { registry, learning }) {
      const { registered } = registry.find(name);
      const tool = nameOf(registry, name);
      const state = (await learning()).read(tool, registered);
      if (state === undefined) return noObservation();
      return json(200, { learning: state }, { recorded: { tool, ended: state.ended } });
    },
  }),
  endpoint({
    ...operators,
    path: "/tools/:name/learning/progress",
    method: "GET",
    summary: "How far an observation is: counts only; `?wait=` waits until it has ended.",
    query: z.strictObject({ wait }),
    errors: { 404: "LEARNING_NOT_FOUND" },
    audited: "no",
    async handle(request, services) {
      const { name } = request.params;
      const learning = await services.learning();
      const { wait: seconds } = request.query;
      if (seconds > 0) await awaitEnd(learning, request, { tool: nameOf(services.registry, name), seconds });
      const { registered } = services.registry.find(name);
      const progress = learning.progress(nameOf(services.registry, name), registered);
      return progress === undefined ? noObservation() : json(200, { learning: progress });
    },
  }),
  endpoint({
    ...operators,
    method: "DELETE",
    summary: "Stop observing a tool; its result can still be read for an hour.",
    errors: { 404: "LEARNING_NOT_FOUND" },
    audited: "change",
    async handle({ caller, params: { name } }, services) {
      const { registered } = services.registry.find(name);
      const tool = nameOf(services.registry, name);
      const learning = await services.learning();
      const before = learning.read(tool, registered);
      if (before === undefined) return noObservation();
      learning.stop(tool);
      if (before.state === "observing") {
        await record(services, { type: "learning.stopped", tool, ...actor(caller) });
      }
      return json(200, { learning: learning.read(tool, registered) });
    },
  }),
];

/** Waits for the end of an observation, but only while the caller's token is valid and the client is connected. */
async function awaitEnd(
  learning: Learning,
  request: AdmittedRequest<"operators">,
  { tool, seconds }: { readonly tool: string; readonly seconds: number },
): Promise<void> {
  const leaving = new AbortController();
  const stop = request.untilEnd(() => leaving.abort());
  try {
    const timeoutMs = Math.min(seconds * 1_000, request.tokenLeftMs());
    await learning.wait(tool, { timeoutMs, signal: leaving.signal });
  } finally {
    stop();
  }
  if (request.isDisconnected()) throw new Refusal("CANCELLED", "The client disconnected.");
  await request.verifyAgain();
}

function nameOf(registry: Registry, name: string): string {
  return registry.find(name).registered?.tool.name ?? name;
}

/** @throws {Refusal} TOOL_NOT_FOUND */
function toolOf(registry: Registry, name: string): RegisteredTool {
  const { registered } = registry.find(name);
  if (registered !== undefined) return registered;
  throw new Refusal("TOOL_NOT_FOUND", "There is no tool of this name: stc tools lists them.");
}

function noObservation(): EndpointAnswer {
  const message = "This process does not observe the tool, and has no result. Other replicas have their own.";
  return deniedAnswer(404, "LEARNING_NOT_FOUND", message);
}

function actor({ subject, issuer }: CallerContext) {
  return { sub: subject, iss: issuer };
}
