import { errorText } from "../../core/error-text.ts";
import { ManifestError, Refusal, StartupError } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { PartialAnswer } from "../../core/partial-answer.ts";
import { onlyStringField } from "../../core/schema/walk.ts";
import type { OpenedKind, SystemState } from "../../core/target-kind.ts";
import { parseTracestate } from "../../core/tracing.ts";
import type { Binding, EpochMs, ExecutionPlan, HttpTarget, Json, RunContext, Tool } from "../../core/types.ts";
import type { AddressRules } from "../../egress/addresses.ts";
import type { AssertionSigner } from "../../egress/assertion.ts";
import { isSameIdentity } from "../../egress/certificates.ts";
import type { Resolve } from "../../egress/checked-lookup.ts";
import type { EgressTls } from "../../egress/client.ts";
import type { Credentials } from "../../egress/credentials.ts";
import { type EgressAnswer, EgressError } from "../../egress/request.ts";
import { type Circuit, Resilience, type ResilienceLimits } from "../../egress/resilience.ts";
import { RotatingClient } from "../../egress/rotating-client.ts";
import type { CertificateSource } from "../../egress/rotation.ts";
import { bytesWithout, secretsInHeaders, textWithout } from "../../egress/sent-secrets.ts";
import { type ApiCall, failureOf, failureOfRequest, HttpFailure, isSuccess, readResult, refusalOf } from "./answer.ts";
import { failureOfSize, failureOfStatus, type GraphqlOperation, readData, wasExecuted } from "./graphql/answer.ts";
import { requestOf } from "./graphql/manifest.ts";
import { httpHeadline } from "./headline.ts";
import { fieldsOf, patternsOf } from "./manifest.ts";
import { type BodyForm, bodyFormOf, bodyText, JSON_TYPE, RequestBuilder } from "./request.ts";

/** A configured system, before it is opened. */
export interface HttpSystem {
  readonly baseUrl: URL;
  readonly addresses: AddressRules;
  /** Present for https. */
  readonly tls: EgressTls | undefined;
  readonly certificates?: CertificateSource | undefined;
  readonly credentials?: Credentials | undefined;
  /** Headers of every request, by lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  readonly answerBytesMax: number;
  readonly resilience: ResilienceLimits;
  /** Whether caller assertions are sent. */
  readonly isAsserted: boolean;
}

interface HttpHandlerOptions {
  readonly systems: ReadonlyMap<string, HttpSystem>;
  readonly sign?: AssertionSigner | undefined;
  readonly random: () => number;
  readonly now: () => EpochMs;
  /** Default: the system's resolver. */
  readonly resolve?: Resolve | undefined;
}

interface SystemStatus extends SystemState {
  readonly circuit: Circuit;
  readonly connections: number;
  /** Expiry of the proxy's own certificate for this system, in ISO 8601; null without one. */
  readonly certificateExpiresAt: string | null;
}

/** The members of the kind that need a configured system. */
export interface HttpHandler extends Required<Pick<OpenedKind, "certificates" | "watch" | "revoked" | "close">> {
  /** `operation`: the checked operation of a GraphQL tool. */
  bind(tool: Tool, operation?: GraphqlOperation): Binding;
  status(): Readonly<Record<string, SystemStatus>>;
}

/** The connections, credentials and limits of one system. */
interface OpenedSystem {
  readonly name: string;
  readonly system: HttpSystem;
  readonly resilience: Resilience;
  readonly connections: RotatingClient;
}

/**
 * Creates the handler for HTTP APIs. Connects at the first call.
 *
 * @throws {StartupError} with all problems
 */
export function httpHandler(options: HttpHandlerOptions): HttpHandler {
  const systems = openAll(options);
  const all = [...systems.values()];
  return {
    bind: (tool, operation) => new HttpBinding(tool, operation, { ...options, opened: systems }),
    certificates: () => all.flatMap(({ connections }) => connections.certificates()),
    status: () => Object.fromEntries(all.map((system) => [system.name, statusOf(system)])),
    watch(watching) {
      for (const { connections } of all) connections.watch(watching);
    },
    revoked() {
      for (const { system } of all) system.credentials?.forgetCallers?.();
    },
    async close() {
      for (const { connections } of all) connections.close();
    },
  };
}

function openAll(options: HttpHandlerOptions): ReadonlyMap<string, OpenedSystem> {
  const systems = new Map<string, OpenedSystem>();
  const problems: string[] = [];
  for (const [name, system] of options.systems) {
    try {
      systems.set(name, opened(name, system, options));
    } catch (error) {
      problems.push(`systems.${name}.http: ${errorText(error)}`);
    }
  }
  if (problems.length > 0) throw new StartupError(problems);
  return systems;
}

/** @throws {Error} when the certificates do not fit together */
function opened(name: string, system: HttpSystem, { random, resolve }: HttpHandlerOptions): OpenedSystem {
  const { baseUrl: url, addresses, tls, certificates, resilience } = system;
  const connections = new RotatingClient({
    system: name,
    url,
    addresses,
    tls,
    certificates,
    resolve,
    connectionsMax: resilience.concurrentCallsMax,
  });
  return { name, system, resilience: new Resilience(resilience, random), connections };
}

function statusOf({ resilience, connections }: OpenedSystem): SystemStatus {
  const { client, clientCertificate } = connections.current;
  return {
    circuit: resilience.circuit,
    calls: resilience.calls,
    connections: client.connections,
    certificateExpiresAt: clientCertificate === null ? null : new Date(clientCertificate.notAfter).toISOString(),
  };
}

/** Bytes of an answer's body that the tool's author sees. */
const OBSERVED_BYTES_MAX = 65_536;

function redactedHeaders(headers: EgressAnswer["headers"], secrets: readonly string[]): Record<string, string> {
  const shown = Object.entries(headers).map(([name, value]) => [name, textWithout(String(value), secrets)]);
  return Object.fromEntries(shown);
}

function httpTarget({ name, target }: Tool): HttpTarget {
  if ("http" in target) return target;
  throw new ManifestError(name, [{ field: "target", message: "is not an HTTP target" }]);
}

const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
const ACCEPT = "application/json, text/*;q=0.5";
/** Services that know the first type tell a request that was not executed by its status. */
const ACCEPT_GRAPHQL = "application/graphql-response+json, application/json;q=0.9";

/** One attempt: the request of a plan, and what is added to it when it runs. */
interface Sending {
  readonly request: PlannedRequest;
  readonly body: string | undefined;
  readonly context: RunContext;
  readonly call: ApiCall;
}

interface PlannedRequest {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

/** Returns the body of a GraphQL request. */
function operationBody({ name, document }: GraphqlOperation, variables: Json | undefined): Json {
  return { operationName: name, query: document, variables: variables ?? {} };
}

class HttpBinding implements Binding {
  readonly #tool: Tool;
  readonly #system: OpenedSystem;
  readonly #http: HttpTarget["http"];
  readonly #builder: RequestBuilder;
  readonly #sign: AssertionSigner | undefined;
  readonly #now: () => EpochMs;
  readonly #form: BodyForm;
  readonly #contentType: string;
  readonly #safe: boolean;
  readonly #operation: GraphqlOperation | undefined;
  readonly #textField: string | undefined;
  readonly #spanTarget: { readonly method: string; readonly path: string; readonly server: string };

  constructor(
    tool: Tool,
    operation: GraphqlOperation | undefined,
    {
      opened: systems,
      sign,
      now,
    }: Pick<HttpHandlerOptions, "sign" | "now"> & { readonly opened: ReadonlyMap<string, OpenedSystem> },
  ) {
    const { system: name, http } = httpTarget(tool);
    const system = systems.get(name);
    if (system === undefined) {
      const known = [...systems.keys()].join(", ") || "none";
      const message = `no HTTP system ${name} is configured; configured: ${known}`;
      throw new ManifestError(tool.name, [{ field: "target.system", message }]);
    }
    const fixed = Object.keys(http.headers ?? {}).filter((header) => Object.hasOwn(system.system.headers, header));
    if (fixed.length > 0) {
      const message = `is set by systems.${name}.http.headers`;
      throw new ManifestError(
        tool.name,
        fixed.map((header) => ({ field: `target.http.headers.${header}`, message })),
      );
    }
    const { baseUrl } = system.system;
    const fields = fieldsOf(tool.input);
    const patterns = new Map(Object.entries(fields).map(([field, schema]) => [field, patternsOf(schema)]));
    this.#tool = tool;
    this.#system = system;
    this.#http = http;
    this.#builder = new RequestBuilder({
      baseUrl,
      http: requestOf(http),
      patternsOf: (field) => patterns.get(field) ?? [],
    });
    this.#operation = operation;
    this.#sign = system.system.isAsserted ? sign : undefined;
    this.#now = now;
    this.#contentType = http.contentType ?? JSON_TYPE;
    this.#form = bodyFormOf(this.#contentType) ?? "json";
    this.#safe = tool.classification === "read" || tool.idempotent;
    this.#textField = onlyStringField(tool.output);
    const server = `${baseUrl.hostname}:${baseUrl.port || (baseUrl.protocol === "https:" ? 443 : 80)}`;
    this.#spanTarget = { method: http.method, path: http.path, server };
  }

  readonly plansFromArguments = true;

  plan(input: unknown): ExecutionPlan {
    const built = this.#builder.build(input);
    const { url, headers } = built;
    const operation = this.#operation;
    const body = operation === undefined ? built.body : operationBody(operation, built.body);
    const { tls } = this.#system.connections.current;
    // A body that cannot be sent is refused before anybody is asked to approve it.
    if (body !== undefined) bodyText(body, this.#form);
    const all = {
      accept: operation === undefined ? ACCEPT : ACCEPT_GRAPHQL,
      ...(body !== undefined && { "content-type": this.#contentType }),
      ...this.#system.system.headers,
      ...headers,
    };
    return {
      kind: "http",
      system: this.#system.name,
      method: this.#http.method,
      url,
      headers: Object.fromEntries(Object.entries(all).sort(([a], [b]) => (a < b ? -1 : 1))),
      ...(operation !== undefined && {
        operation: `${operation.type} ${operation.name}`,
        documentSha256: operation.sha256,
      }),
      ...(body !== undefined && { body }),
      tls: tls === null ? null : { rootSha256: tls.rootSha256, serverName: tls.serverName },
    };
  }

  fixedParts({ kind, system, method, url, operation, documentSha256, tls }: ExecutionPlan): Json {
    return {
      kind,
      system: system ?? null,
      method: method ?? null,
      origin: new URL(String(url)).origin,
      ...(operation !== undefined && { operation, documentSha256: documentSha256 ?? null }),
      tls: tls ?? null,
    };
  }

  readonly headline = httpHeadline;

  /** Adds the sorted names of the headers that are added when the request is sent. */
  preview(plan: ExecutionPlan): ExecutionPlan {
    const { credentials } = this.#system.system;
    return {
      ...plan,
      addedHeaders: [
        ...(credentials === undefined ? [] : ["(credentials)"]),
        ...(this.#isChange() ? ["idempotency-key"] : []),
        ...(this.#sign === undefined ? [] : ["x-caller-assertion"]),
        ...["traceparent?", "tracestate?"],
      ],
    };
  }

  classificationDoubt(): string | undefined {
    // The document of a GraphQL tool shows whether it is a query or a mutation.
    return this.#isChange() || this.#http.method !== "POST" || this.#operation !== undefined
      ? undefined
      : "is read, but the request is a POST";
  }

  readonly callsBegin = true;

  async run(plan: ExecutionPlan, context: RunContext): Promise<unknown> {
    const request = this.#planned(plan);
    if (!isSameIdentity(plan["tls"], this.#system.connections.current.tls)) {
      throw new Refusal("TARGET_UNAVAILABLE", "The service's identity changed after the call was planned. Call again.");
    }
    const body = plan["body"] === undefined ? undefined : bodyText(plan["body"], this.#form);
    const call: ApiCall = {
      system: this.#system.name,
      path: this.#http.path,
      safe: this.#safe,
      signal: context.signal,
      means: this.#http.means ?? {},
      errors: this.#tool.errors,
      now: this.#now,
    };
    try {
      const answer = await this.#system.resilience.run({
        ...call,
        attempt: () => this.#attempt({ request, body, context, call }),
        connected: () => this.#system.connections.current.client.connections > 0,
      });
      if (answer instanceof PartialAnswer) {
        const failure = this.#operation && failureOfSize(this.#operation);
        if (failure !== undefined) throw failure;
        return answer;
      }
      return this.#operation === undefined ? readResult(answer, this.#textField) : readData(answer, this.#operation);
    } catch (error) {
      throw error instanceof HttpFailure ? refusalOf(error, call) : error;
    }
  }

  #isChange(): boolean {
    return this.#tool.classification !== "read";
  }

  /** Reads the plan again: exactly what was planned is sent. */
  #planned({ method, url, headers }: ExecutionPlan): PlannedRequest {
    const { baseUrl } = this.#system.system;
    const target = URL.parse(String(url));
    if (method !== this.#http.method || target?.origin !== baseUrl.origin || target.href !== url) {
      throw new Refusal("INTERNAL", "The call could not be made.", { cause: "the plan belongs to another target" });
    }
    const texts = Object.entries(isTable(headers) ? headers : {}).map(
      ([name, value]) => [name, String(value)] as const,
    );
    return { method, url: target, headers: Object.fromEntries(texts) };
  }

  /** Sends the request, and once more with other credentials when the service refuses them: a 401 is a definite refusal. */
  async #attempt(sending: Sending): Promise<EgressAnswer | PartialAnswer> {
    const { credentials } = this.#system.system;
    const { context } = sending;
    try {
      const held = (await credentials?.header(context)) ?? {};
      const answer = await this.#send(sending, held);
      const isExecuted = this.#operation !== undefined && wasExecuted(answer, this.#operation);
      const isRefused = answer.status === 401 && credentials !== undefined && !isExecuted;
      const isRenewed = isRefused && (await credentials.renew(held, context).catch(() => false));
      const last = isRenewed ? await this.#send(sending, await credentials.header(context)) : answer;
      if (isSuccess(last.status, sending.call)) return last;
      throw this.#operation === undefined
        ? failureOf(last, sending.call)
        : failureOfStatus(last, this.#operation, sending.call);
    } catch (error) {
      if (!(error instanceof EgressError)) throw error;
      const failure = failureOfRequest(error, sending.call);
      if (failure instanceof PartialAnswer) return failure;
      throw failure;
    }
  }

  async #send(
    { request, body, context }: Sending,
    credentials: Readonly<Record<string, string>>,
  ): Promise<EgressAnswer> {
    const { traceId, traceparent, tracestate, requests, signal } = context;
    const { method, url } = request;
    const state = parseTracestate(tracestate);
    const span = requests?.begin(this.#spanTarget);
    const parent = span?.traceparent ?? (TRACEPARENT.test(traceparent ?? "") ? traceparent : undefined);
    const secret = { ...(await this.#assertion(request, body, context)), ...credentials };
    const added: Record<string, string> = {
      ...(this.#isChange() && { "idempotency-key": traceId }),
      ...(parent !== undefined && { traceparent: parent }),
      ...(parent !== undefined && state !== undefined && { tracestate: state }),
      ...secret,
    };
    try {
      const answer = await this.#system.connections.current.client.send({
        method,
        url,
        body,
        signal,
        headers: { ...request.headers, ...added },
        bodyBytesMax: this.#system.system.answerBytesMax,
        isRepeatable: this.#safe,
        onSend: context.begin,
      });
      span?.end(String(answer.status));
      const secrets = secretsInHeaders(Object.values(secret));
      const shown = { ...answer, body: bytesWithout(answer.body, secrets) };
      context.observe?.("HTTP answer", {
        status: answer.status,
        headers: redactedHeaders(answer.headers, secrets),
        body: shown.body.subarray(0, OBSERVED_BYTES_MAX),
        bodyBytes: shown.body.length,
      });
      return shown;
    } catch (error) {
      span?.end(error instanceof EgressError ? String(error.status ?? error.failure) : "UNKNOWN");
      context.observe?.("HTTP request", { error });
      throw error;
    }
  }

  async #assertion(
    { method, url }: PlannedRequest,
    body: string | undefined,
    { caller, traceId }: RunContext,
  ): Promise<Readonly<Record<string, string>>> {
    if (this.#sign === undefined) return {};
    const message = Buffer.from(body ?? "");
    const target = `${method} ${url.pathname}${url.search}`;
    const asserted = { system: this.#system.name, caller, tool: this.#tool.name, method: target, message, traceId };
    return { "x-caller-assertion": await this.#sign(asserted) };
  }
}
