import { Refusal } from "../core/errors.ts";
import { deniedAnswer, refusalAnswer } from "./answers.ts";
import { type Endpoint, type EndpointAnswer, type EndpointServices, methodsOf, type Route } from "./endpoint.ts";
import type { AnswerFunction, HttpExchange } from "./exchange.ts";
import { Guard } from "./guard.ts";
import type { ReceivedRequest } from "./messages.ts";
import { checkPeerHeaders } from "./request-guard.ts";
import type { TenantDispatch } from "./server-options.ts";
import { segmentsOf } from "./target-path.ts";

interface AnsweringOptions {
  readonly routes: readonly Route[];
  readonly parts: Omit<EndpointServices, "routes" | "onClosing" | "onClose" | "listener">;
  /** The listener itself: what its requests share is kept for it. */
  readonly listener: object;
  /** Passes requests to the tenants that they name; undefined in a service without tenants, and for a tenant itself. */
  readonly tenants?: TenantDispatch | undefined;
}

/** The endpoints of one listener and their common guard, whatever server receives the requests. */
export class Answering {
  readonly #routes: readonly Route[];
  readonly #services: EndpointServices;
  readonly #guard: Guard;
  readonly #tenants: TenantDispatch | undefined;
  readonly #endings: (() => void)[] = [];
  readonly #closings: (() => unknown)[] = [];

  constructor({ routes, parts, listener, tenants }: AnsweringOptions) {
    this.#routes = routes;
    this.#tenants = tenants;
    this.#services = {
      ...parts,
      ...(tenants !== undefined && { sessions: tenants.sessions }),
      routes,
      onClosing: (work) => void this.#endings.push(work),
      onClose: (work) => void this.#closings.push(work),
      listener,
    };
    this.#guard = new Guard(this.#services);
  }

  /** Returns the function that answers an endpoint's requests. */
  answerOf(endpoint: Endpoint): AnswerFunction {
    const own: AnswerFunction =
      "receive" in endpoint
        ? (exchange) => endpoint.receive(exchange, this.#services)
        : (exchange) => this.#guard.serve(endpoint, exchange);
    return endpoint.adapt === undefined ? own : adapted(own, endpoint.adapt);
  }

  /** Answers a request that no route takes. */
  unknown(raw: ReceivedRequest): EndpointAnswer {
    const { url } = raw;
    if (routesAt(this.#routes, url).some(({ endpoint }) => endpoint.hidesMethods === true)) {
      checkPeerHeaders(raw, this.#services);
    }
    return this.unknownAt(url);
  }

  /** Answers a request for a target that no route takes; undefined for a target that is not a valid path. */
  unknownAt(target: string | undefined): EndpointAnswer {
    this.#services.metrics.load.unknownRoute();
    return unknownAnswer(this.#routes, target);
  }

  /** Sends what `answer` returns, or what the request's tenant answers, or the refusal. Never rejects. */
  async serve(exchange: HttpExchange, answer: AnswerFunction): Promise<void> {
    const { logError } = this.#services;
    try {
      const answered = await (this.#tenants === undefined ? answer(exchange) : this.#tenants.answer(exchange, answer));
      if (answered.stream === undefined) exchange.send(answered);
      else await exchange.follow(answered);
    } catch (error) {
      if (!(error instanceof Refusal)) logError(error);
      const failed = new Refusal("INTERNAL", "The request failed inside the service.");
      try {
        exchange.send(refusalAnswer(error instanceof Refusal ? error : failed));
      } catch (unsent) {
        logError(unsent);
        exchange.destroy();
      }
    }
  }

  /** Ends what waits: long polls, streams, and requests whose bodies have not arrived. */
  close(): void {
    this.#guard.close();
    for (const end of this.#endings) end();
    this.#tenants?.close();
  }

  /** Runs what endpoints left for the end, after the last request. */
  async closed(): Promise<void> {
    for (const work of this.#closings) await work();
    await this.#tenants?.closed();
  }
}

/** Returns the function whose answers, refusals included, are as the endpoint adapts them. */
function adapted(answer: AnswerFunction, adapt: NonNullable<Endpoint["adapt"]>): AnswerFunction {
  return async (exchange) => {
    const answered = await answer(exchange).catch((error: unknown) => {
      if (error instanceof Refusal) return refusalAnswer(error);
      throw error;
    });
    return adapt(answered, exchange.raw);
  };
}

/** Distinguishes an unknown route from a wrong method (RFC 9110, 15.5.6). An undefined target is not a valid path. */
function unknownAnswer(routes: readonly Route[], target: string | undefined): EndpointAnswer {
  const allow = [...new Set(routesAt(routes, target).flatMap(({ endpoint }) => methodsOf(endpoint)))].sort().join(", ");
  if (allow === "") {
    const isListed = routes.some(({ path }) => path === "/openapi.json");
    const where = isListed ? ": GET /openapi.json lists them" : "";
    return deniedAnswer(404, "ROUTE_NOT_FOUND", `There is no such route${where}.`);
  }
  const answer = deniedAnswer(405, "METHOD_NOT_ALLOWED", `This route takes ${allow}.`);
  return { ...answer, headers: { ...answer.headers, allow } };
}

function routesAt(routes: readonly Route[], target: string | undefined): readonly Route[] {
  const segments = target === undefined ? undefined : segmentsOf(target);
  return segments === undefined ? [] : routes.filter(({ path }) => matches(path, segments));
}

function matches(path: string, target: readonly (string | undefined)[]): boolean {
  const segments = path.split("/");
  return segments.length === target.length && segments.every((one, at) => one.startsWith(":") || one === target[at]);
}
