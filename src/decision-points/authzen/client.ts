import { isTable } from "../../core/json.ts";
import type { PointState } from "../../core/policy-point.ts";
import { parseStrictJson } from "../../core/strict-json.ts";
import type { WatchOptions } from "../../core/target-kind.ts";
import type { Json } from "../../core/types.ts";
import type { AddressRules } from "../../egress/addresses.ts";
import type { EgressTls } from "../../egress/client.ts";
import type { Credentials } from "../../egress/credentials.ts";
import { type EgressAnswer, EgressError, type EgressFailure, egressReason } from "../../egress/request.ts";
import { FailedAttempt, Resilience, type ResilienceLimits } from "../../egress/resilience.ts";
import { RotatingClient } from "../../egress/rotating-client.ts";
import type { CertificateSource } from "../../egress/rotation.ts";
import { bytesWithout, secretsInHeaders } from "../../egress/sent-secrets.ts";
import type { OpenedPoint, PointAnswer, PointQuestion } from "../kind.ts";

interface AuthZenOptions {
  readonly name: string;
  readonly url: URL;
  readonly addresses: AddressRules;
  /** Present for https. */
  readonly tls: EgressTls | undefined;
  readonly certificates: CertificateSource | undefined;
  readonly credentials: Credentials | undefined;
  readonly resilience: ResilienceLimits;
  /** Time limit for a decision, with retries. */
  readonly timeoutMs: number;
  readonly random: () => number;
}

const PATH = "/access/v1/evaluation";
const REQUEST_BYTES_MAX = 1_048_576;
const ANSWER_BYTES_MAX = 65_536;
const ANSWER_LIMITS = { depthMax: 16, keysMax: 1_000, elementsMax: 1_000 } as const;
const REASONS_MAX = 8;
const UNAUTHENTICATED = 401;
const OK = 200;
const JSON_TYPE = /^application\/(?:[a-z0-9!#$&^_.+-]{1,64}\+)?json(?:;|$)/;

/** The party that is to blame for a failure. The time limit counts as the connection: a point that hangs opens its circuit. */
const ORIGIN: Readonly<Partial<Record<EgressFailure, "transport">>> = {
  address: "transport",
  unreachable: "transport",
  lost: "transport",
  aborted: "transport",
};

/** A decision point at a URL. Only the JSON value `true` as the `decision` of an answer with status 200 allows a call. */
export class AuthZenPoint implements OpenedPoint {
  readonly #options: AuthZenOptions;
  readonly #url: URL;
  readonly #resilience: Resilience;
  readonly #connections: RotatingClient;

  /** @throws {Error} when the certificates do not fit together */
  constructor(options: AuthZenOptions) {
    const { name, url, addresses, tls, certificates, resilience, random } = options;
    this.#options = options;
    this.#url = new URL(`${url.origin}${url.pathname.replace(/\/$/, "")}${PATH}`);
    this.#resilience = new Resilience(resilience, random);
    this.#connections = new RotatingClient({
      system: name,
      url,
      addresses,
      tls,
      certificates,
      connectionsMax: resilience.concurrentCallsMax,
    });
  }

  preview(question: PointQuestion): Json {
    return { method: "POST", url: this.#url.href, body: evaluationOf(question) };
  }

  async evaluate(question: PointQuestion): Promise<PointAnswer> {
    const body = JSON.stringify(evaluationOf(question));
    if (Buffer.byteLength(body) > REQUEST_BYTES_MAX) throw new Error("the call's arguments are too large to be sent");
    const { name: system, timeoutMs } = this.#options;
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      return await this.#resilience.run({
        system,
        path: PATH,
        safe: true,
        signal,
        attempt: () => this.#attempt(body, question.traceId, signal),
        connected: () => this.#connections.current.client.connections > 0,
      });
    } catch (error) {
      throw signal.aborted ? new Error(`no answer within ${timeoutMs} ms`) : error;
    }
  }

  state(): Pick<PointState, "circuit" | "calls"> {
    return { circuit: this.#resilience.circuit, calls: this.#resilience.calls };
  }

  watch(options: WatchOptions): void {
    this.#connections.watch(options);
  }

  close(): void {
    this.#connections.close();
  }

  /** Asks, and once more with other credentials when the point refuses them. */
  async #attempt(body: string, traceId: string | undefined, signal: AbortSignal): Promise<PointAnswer> {
    const { credentials } = this.#options;
    try {
      const held = (await credentials?.header({ signal })) ?? {};
      const answer = await this.#send(body, traceId, { held, signal });
      const isRefused = answer.status === UNAUTHENTICATED && credentials !== undefined;
      if (!isRefused || !(await credentials.renew(held, { signal }).catch(() => false))) return read(answer);
      return read(await this.#send(body, traceId, { held: await credentials.header({ signal }), signal }));
    } catch (error) {
      if (!(error instanceof EgressError)) throw error;
      const origin = ORIGIN[error.failure] ?? "service";
      const facts = { origin, isUnavailable: origin === "transport", answerStarted: false, sent: error.sent } as const;
      throw new FailedAttempt(`no usable answer: ${error.message} (${egressReason(error)})`, facts);
    }
  }

  async #send(
    body: string,
    traceId: string | undefined,
    { held, signal }: { readonly held: Readonly<Record<string, string>>; readonly signal: AbortSignal },
  ): Promise<EgressAnswer> {
    const answer = await this.#connections.current.client.send({
      method: "POST",
      url: this.#url,
      body,
      signal,
      bodyBytesMax: ANSWER_BYTES_MAX,
      isRepeatable: true,
      headers: {
        accept: "application/json",
        "content-type": "application/json",
        ...(traceId !== undefined && { "x-request-id": traceId }),
        ...held,
      },
    });
    return { ...answer, body: bytesWithout(answer.body, secretsInHeaders(Object.values(held))) };
  }
}

/**
 * Returns the request by the default mapping of COAZ-MCP for `tools/call`. The subject is the person or service that the token
 * names; the issuer and the tenant, which make the name unique, and everything else that is known of it are properties.
 */
function evaluationOf({ tool, caller, args, approval }: PointQuestion): { readonly [member: string]: Json } {
  const { issuer, subject, tenant, actors, permissions, claims = {} } = caller;
  const { client_id, azp, ...further } = claims;
  const agent = client_id ?? azp;
  return {
    subject: {
      type: "identity",
      id: subject,
      properties: {
        issuer,
        ...(tenant !== undefined && { tenant }),
        permissions,
        ...(actors.length > 0 && { act: actors }),
        ...(Object.keys(further).length > 0 && { claims: further }),
      },
    },
    action: { name: "tools/call" },
    resource: {
      type: "tool",
      id: tool.name,
      properties: { system: tool.target.system, classification: tool.classification, category: tool.category },
    },
    context: {
      ...(agent !== undefined && { agent }),
      ...(args !== undefined && { arguments: args }),
      ...(approval !== undefined && { approval: approvalOf(approval) }),
    },
  };
}

function approvalOf({ id, approvers, decidedAt, usableUntil }: NonNullable<PointQuestion["approval"]>): Json {
  return {
    id,
    approved_at: new Date(decidedAt).toISOString(),
    ...(usableUntil !== undefined && { approved_until: new Date(usableUntil).toISOString() }),
    approvers: approvers.map(({ issuer, subject }) => ({ type: "identity", id: subject, properties: { issuer } })),
  };
}

/** @throws {Error} when the answer is not a decision */
function read({ status, headers, body }: EgressAnswer): PointAnswer {
  if (status !== OK) throw new Error(`the answer has status ${status}`);
  const type = headers["content-type"]?.toLowerCase().replace(/\s/g, "") ?? "";
  if (!JSON_TYPE.test(type)) throw new Error("the answer is not JSON by its media type");
  const answer = parseStrictJson(body, ANSWER_LIMITS);
  const { decision, context } = isTable(answer) ? answer : {};
  if (typeof decision !== "boolean") throw new Error("the answer holds no decision that is true or false");
  if (decision) return { allows: true, reasons: [] };
  return { allows: false, reasons: reasonsIn(context), mayAsk: isTable(context) && isTable(context["access_request"]) };
}

/** Returns the texts with which a point explains a denial: to operators first, then those meant for users. */
function reasonsIn(context: unknown): readonly string[] {
  if (!isTable(context)) return [];
  const texts = [context["reason_admin"], context["reason"], context["reason_user"]].flatMap((reason) =>
    isTable(reason) ? Object.values(reason) : [reason],
  );
  return texts.filter((text) => typeof text === "string" && text.trim() !== "").slice(0, REASONS_MAX) as string[];
}
