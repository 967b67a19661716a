import type { CallerVerifier } from "../pipeline/caller-context.ts";
import type { Presented, TenantChoice } from "../pipeline/identity/tenants.ts";
import { type RequestTurn, Turns } from "../pipeline/limits/turns.ts";
import { Answering } from "./answering.ts";
import { certificateOf } from "./connections/listening-tls.ts";
import { RequestRateLimiter } from "./connections/request-limits.ts";
import { type EndpointAnswer, type PresentedSession, routesOf, type SessionSource } from "./endpoint.ts";
import type { AnswerFunction, HttpExchange } from "./exchange.ts";
import { RouteTable } from "./front/route-table.ts";
import type { ReceivedRequest } from "./messages.ts";
import type { ListenerTenants, ServedTenant, TenantDispatch, TenantListener } from "./server-options.ts";

/**
 * The tenants of a service at its listeners. What a request presents says whose it is, before anything of it is verified. The
 * choice grants nothing: the tenant's own guard and verifier check everything, with the tenant's own issuers.
 */
export class Tenants implements ListenerTenants {
  readonly callers: CallerVerifier;
  readonly #tenants: ReadonlyMap<string, ServedTenant>;
  readonly #choice: TenantChoice;

  /** `own` verifies the callers of the service itself. */
  constructor(
    tenants: readonly ServedTenant[],
    { own, choice }: { readonly own: CallerVerifier; readonly choice: TenantChoice },
  ) {
    this.#tenants = new Map(tenants.map((tenant) => [tenant.name, tenant]));
    this.#choice = choice;
    this.callers = callersOf(own, (presented) => this.#tenants.get(choice(presented) ?? "")?.callers);
  }

  on(listener: TenantListener): TenantDispatch {
    return new Dispatch([...this.#tenants.values()], this.#choice, listener);
  }
}

/** Returns a verifier that passes each token to the tenant that it names. Everything without a token is the service's own. */
function callersOf(
  own: CallerVerifier,
  tenantOf: (presented: Presented) => CallerVerifier | undefined,
): CallerVerifier {
  const of = (presented: Presented): CallerVerifier => tenantOf(presented) ?? own;
  return {
    verify: (authorization, audience, certificate) =>
      of({ authorization, certificate }).verify(authorization, audience, certificate),
    recall: (authorization, audience, certificate) =>
      of({ authorization, certificate }).recall(authorization, audience, certificate),
    verifyToken: (token, audience, certificate) =>
      of({ authorization: `Bearer ${token}`, certificate }).verifyToken(token, audience, certificate),
    knows: (authorization) => of({ authorization }).knows(authorization),
    assertOperator: (person) => own.assertOperator(person),
    configuredAgent: (agent) => own.configuredAgent(agent),
    reload: (issuers) => own.reload(issuers),
    clear: () => own.clear(),
    fetchedKeys: (...named) => own.fetchedKeys(...named),
  };
}

/** Passes the requests of one listener to the tenants that they name. */
class Dispatch implements TenantDispatch {
  readonly sessions: SessionSource | undefined;
  readonly #sessions: SettledSessions | undefined;
  readonly #tenants: ReadonlyMap<string, TenantAnswering>;
  readonly #choice: TenantChoice;
  /** Endpoints whose requests are signed: the name in the path says whose they are. */
  readonly #signed = new RouteTable<undefined>();
  /** The turn of the service itself. */
  readonly #ownTurn: RequestTurn;
  readonly #isIntegrationOf: readonly (readonly [tenant: string, isIntegration: (name: string) => boolean])[];

  constructor(tenants: readonly ServedTenant[], choice: TenantChoice, listener: TenantListener) {
    const { sessions } = listener.parts;
    this.#sessions = sessions && new SettledSessions(sessions);
    this.sessions = this.#sessions;
    this.#choice = choice;
    const parts = { ...listener.parts, sessions: this.sessions };
    const turns = new Turns({ now: parts.clock });
    this.#ownTurn = turns.join((waitedMs) => parts.shedding?.noteWait(waitedMs));
    this.#tenants = new Map(
      tenants.map((each) => [each.name, new TenantAnswering(each, { ...listener, parts, turns })]),
    );
    this.#isIntegrationOf = tenants.map(({ name, isIntegration }) => [name, isIntegration]);
    const signed = [...this.#tenants.values()].flatMap(({ routes }) =>
      routes.filter(({ endpoint }) => endpoint.audience === "signers"),
    );
    for (const route of signed) this.#signed.add(route, undefined);
  }

  async answer(exchange: HttpExchange, own: AnswerFunction): Promise<EndpointAnswer> {
    const name = await this.#nameFor(exchange.raw);
    const tenant = name === undefined ? undefined : this.#tenants.get(name);
    const waiting = (tenant?.turn ?? this.#ownTurn).next();
    if (waiting !== undefined) await waiting;
    return tenant === undefined ? own(exchange) : tenant.answer(exchange);
  }

  close(): void {
    for (const tenant of this.#tenants.values()) tenant.close();
  }

  async closed(): Promise<void> {
    for (const tenant of this.#tenants.values()) await tenant.closed();
  }

  async #nameFor(raw: ReceivedRequest): Promise<string | undefined> {
    const { method = "", url = "" } = raw;
    const signed = this.#signed.find(method, url);
    if (typeof signed === "object") {
      const { name = "" } = signed.params;
      return this.#isIntegrationOf.find(([, isIntegration]) => isIntegration(name))?.[0];
    }
    const { authorization } = raw.headers;
    const session = authorization === undefined ? await this.#sessions?.presentFirst(raw) : undefined;
    return this.#choice({ authorization: session?.authorization ?? authorization, certificate: certificateOf(raw) });
  }
}

/** The sessions of a listener that reads each session twice: to choose the tenant, and in the guard. */
class SettledSessions implements SessionSource {
  readonly #sessions: SessionSource;
  /** Refusals of the first reading. */
  readonly #refused = new WeakMap<ReceivedRequest, unknown>();

  constructor(sessions: SessionSource) {
    this.#sessions = sessions;
  }

  /** Returns the session; undefined when there is none, or when it is refused. */
  async presentFirst(request: ReceivedRequest): Promise<PresentedSession | undefined> {
    try {
      return await this.#sessions.present(request);
    } catch (error) {
      this.#refused.set(request, error);
      return undefined;
    }
  }

  /**
   * Rejects as the first reading did: if the session could be read now, the service itself would be asked about a token that may be
   * a tenant's, and would end the session with it.
   */
  async present(request: ReceivedRequest): Promise<PresentedSession | undefined> {
    if (this.#refused.has(request)) throw this.#refused.get(request);
    return this.#sessions.present(request);
  }
}

/** The endpoints of one tenant at one listener, with everything that their requests share. */
class TenantAnswering {
  readonly routes: ReturnType<typeof routesOf>;
  readonly #answering: Answering;
  readonly #table = new RouteTable<AnswerFunction>();

  readonly turn: RequestTurn;

  constructor(tenant: ServedTenant, { name, parts, own, turns }: TenantListener & { readonly turns: Turns }) {
    const shedding = parts.shedding?.another();
    this.turn = turns.join((waitedMs) => shedding?.noteWait(waitedMs));
    const { callers, metrics, journal, logError, concurrentRequestsMax, limits } = tenant;
    this.routes = routesOf([...own, ...tenant.endpoints], name, parts);
    this.#answering = new Answering({
      routes: this.routes,
      parts: {
        ...parts,
        callers,
        metrics,
        journal,
        logError,
        concurrentRequestsMax,
        shedding,
        requestRate: parts.requestRate && new RequestRateLimiter(() => limits.rates.requests, parts.clock),
      },
      listener: this,
    });
    for (const route of this.routes) this.#table.add(route, this.#answering.answerOf(route.endpoint));
  }

  async answer(exchange: HttpExchange): Promise<EndpointAnswer> {
    const { method = "", url } = exchange.raw;
    const found = this.#table.find(method, url ?? "");
    if (typeof found === "object") {
      exchange.params = found.params;
      return found.value(exchange);
    }
    return found === "invalid" ? this.#answering.unknownAt(undefined) : this.#answering.unknown(exchange.raw);
  }

  close(): void {
    this.#answering.close();
  }

  closed(): Promise<void> {
    return this.#answering.closed();
  }
}
