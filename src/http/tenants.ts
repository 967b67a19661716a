import { Refusal } from "../core/errors.ts";
import type { CallerVerifier } from "../pipeline/caller-context.ts";
import type { Presented, TenantChoice } from "../pipeline/identity/tenants.ts";
import { type RequestTurn, Turns } from "../pipeline/limits/turns.ts";
import { Answering } from "./answering.ts";
import { certificateOf } from "./connections/listening-tls.ts";
import { RequestRateLimiter, type WrongTokens } from "./connections/request-limits.ts";
import { type EndpointAnswer, type PresentedSession, type Route, routesOf, type SessionSource } from "./endpoint.ts";
import type { AnswerFunction, HttpExchange } from "./exchange.ts";
import { RouteTable } from "./front/route-table.ts";
import type { ReceivedRequest } from "./messages.ts";
import type { ListenerTenants, ServedTenant, TenantDispatch, TenantListener } from "./server-options.ts";

/** Chooses the tenant that a request names, by the issuers that the service uses at that time. */
type Choice = Pick<TenantChoice, "of">;

/**
 * The tenants of a service at its listeners. What a request presents says whose it is, before anything of it is verified. The
 * choice grants nothing: the tenant's own guard and verifier check everything, with the tenant's own issuers. It shows nothing
 * either: where a tenant's answer without a valid token would differ from the service's own, only the tenant's callers get it, and
 * every token is verified first, whoever it names: neither an answer, nor the time that it takes, nor what counts as a wrong token
 * depends on which tenants there are.
 */
export class Tenants implements ListenerTenants {
  readonly callers: CallerVerifier;
  readonly #tenants: ReadonlyMap<string, ServedTenant>;
  readonly #choice: Choice;

  /** `own` verifies the callers of the service itself. */
  constructor(
    tenants: readonly ServedTenant[],
    { own, choice }: { readonly own: CallerVerifier; readonly choice: Choice },
  ) {
    this.#tenants = new Map(tenants.map((tenant) => [tenant.name, tenant]));
    this.#choice = choice;
    this.callers = callersOf(own, (presented) => this.#tenants.get(choice.of(presented) ?? "")?.callers);
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

/** Unverified credentials of a request, and whether a session of the console holds them. */
type PresentedFirst = Presented & { readonly isSession?: boolean };

/** Passes the requests of one listener to the tenants that they name. */
class Dispatch implements TenantDispatch {
  readonly sessions: SessionSource | undefined;
  readonly #sessions: SettledSessions | undefined;
  readonly #tenants: ReadonlyMap<string, TenantAnswering>;
  readonly #choice: Choice;
  /** Endpoints whose requests are signed: the name in the path says whose they are. */
  readonly #signed = new RouteTable<undefined>();
  /** Routes at which the service itself and every tenant refuse a wrong token, in the same way. */
  readonly #alike = new RouteTable<undefined>();
  readonly #own: Asked;
  readonly #wrongTokens: WrongTokens | undefined;
  /** The turn of requests with a token that nobody has verified yet. */
  readonly #unverified: RequestTurn;
  readonly #isIntegrationOf: readonly (readonly [tenant: string, isIntegration: (name: string) => boolean])[];

  constructor(tenants: readonly ServedTenant[], choice: Choice, listener: TenantListener) {
    const { sessions } = listener.parts;
    this.#sessions = sessions && new SettledSessions(sessions);
    this.sessions = this.#sessions;
    this.#choice = choice;
    const parts = { ...listener.parts, sessions: this.sessions };
    this.#wrongTokens = parts.wrongTokens;
    const turns = new Turns({ now: parts.clock });
    this.#unverified = turns.join();
    this.#own = {
      turn: turns.join((waitedMs) => parts.shedding?.noteWait(waitedMs)),
      callers: parts.callers,
    };
    this.#tenants = new Map(
      tenants.map((each) => [each.name, new TenantAnswering(each, { ...listener, parts, turns })]),
    );
    this.#isIntegrationOf = tenants.map(({ name, isIntegration }) => [name, isIntegration]);
    const signed = [...this.#tenants.values()].flatMap(({ routes }) =>
      routes.filter(({ endpoint }) => endpoint.audience === "signers"),
    );
    for (const route of signed) this.#signed.add(route, undefined);
    for (const route of guardedByAll([listener, ...this.#tenants.values()])) this.#alike.add(route, undefined);
  }

  async answer(exchange: HttpExchange, own: AnswerFunction): Promise<EndpointAnswer> {
    const { raw } = exchange;
    const integration = this.#integrationIn(raw);
    const presented = integration === undefined ? await this.#presentedBy(raw) : {};
    const tenant = this.#tenants.get(
      (integration === undefined ? this.#choice.of(presented) : integration.tenant) ?? "",
    );
    const waiting = this.#turnOf(tenant ?? this.#own, raw).next();
    if (waiting !== undefined) await waiting;
    // A session was opened with a token of the tenant's operator, and only the tenant's guard may end it.
    const isSettled = integration !== undefined || presented.isSession === true || this.#isAlike(raw);
    const isShown = isSettled || (await this.#isCallerOf(tenant ?? this.#own, raw, presented));
    return tenant !== undefined && isShown ? tenant.answer(exchange) : own(exchange);
  }

  /** Returns whether a request with a wrong token gets the same answer, whatever tenant the token names. */
  #isAlike({ method = "", url = "" }: ReceivedRequest): boolean {
    return typeof this.#alike.find(method, url) === "object";
  }

  /**
   * Returns whether a request comes from a caller of the service that it names. Others do not even learn that the tenant exists. No
   * token of a source with too many wrong ones is verified here either.
   */
  async #isCallerOf(
    { callers }: Asked,
    raw: ReceivedRequest,
    { authorization, certificate }: Presented,
  ): Promise<boolean> {
    if (authorization === undefined && certificate === undefined) return false;
    if ((this.#wrongTokens?.waitMs(raw) ?? 0) > 0) return false;
    let isWrong = false;
    for (const audience of ["agents", "operators"] as const) {
      try {
        await callers.verify(authorization, audience, certificate);
        return true;
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        isWrong = error.code === "UNAUTHENTICATED";
      }
    }
    if (isWrong) this.#wrongTokens?.countUnverified(raw);
    return false;
  }

  /** Requests with a token that nobody has verified yet have a turn of their own: forged tokens delay only other new ones. */
  #turnOf({ turn, callers }: Asked, { headers }: ReceivedRequest): RequestTurn {
    const { authorization } = headers;
    return authorization === undefined || callers.knows(authorization) ? turn : this.#unverified;
  }

  close(): void {
    for (const tenant of this.#tenants.values()) tenant.close();
  }

  async closed(): Promise<void> {
    for (const tenant of this.#tenants.values()) await tenant.closed();
  }

  /** Returns the tenant whose integration a signed request names; undefined for a request that is not signed. */
  #integrationIn({ method = "", url = "" }: ReceivedRequest): { readonly tenant: string | undefined } | undefined {
    const signed = this.#signed.find(method, url);
    if (typeof signed !== "object") return undefined;
    const { name = "" } = signed.params;
    return { tenant: this.#isIntegrationOf.find(([, isIntegration]) => isIntegration(name))?.[0] };
  }

  async #presentedBy(raw: ReceivedRequest): Promise<PresentedFirst> {
    const { authorization } = raw.headers;
    const session = authorization === undefined ? await this.#sessions?.presentFirst(raw) : undefined;
    const isSession = session !== undefined;
    return { authorization: session?.authorization ?? authorization, certificate: certificateOf(raw), isSession };
  }
}

/** Returns the routes that each of them has with the same method and audience, and that are not open to anybody. */
function guardedByAll([first, ...others]: readonly { readonly routes: readonly Route[] }[]): readonly Route[] {
  const keyOf = ({ path, endpoint: { method, audience } }: Route): string => `${method} ${path} ${audience}`;
  const served = others.map(({ routes }) => new Set(routes.map(keyOf)));
  const guarded = first?.routes.filter(({ endpoint }) => endpoint.audience !== "anybody") ?? [];
  return guarded.filter((route) => served.every((keys) => keys.has(keyOf(route))));
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

/** The service that a request names: a tenant, or the service itself. */
interface Asked {
  readonly turn: RequestTurn;
  readonly callers: CallerVerifier;
}

/** The endpoints of one tenant at one listener, with everything that their requests share. */
class TenantAnswering implements Asked {
  readonly routes: ReturnType<typeof routesOf>;
  readonly turn: RequestTurn;
  readonly callers: CallerVerifier;
  readonly #answering: Answering;
  readonly #table = new RouteTable<AnswerFunction>();

  constructor(tenant: ServedTenant, { name, parts, own, turns }: TenantListener & { readonly turns: Turns }) {
    const shedding = parts.shedding?.another();
    this.turn = turns.join((waitedMs) => shedding?.noteWait(waitedMs));
    const { callers, metrics, journal, logError, concurrentRequestsMax, limits } = tenant;
    this.callers = callers;
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
