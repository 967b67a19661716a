import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { CallerVerifier } from "../../pipeline/caller-context.ts";
import { LOOP_MEASURE_EVERY_MS, Shedding } from "../../pipeline/limits/shedding.ts";
import type { ReceivedRequest, ServerAnswer } from "../messages.ts";
import { type ConnectionEnd, type ConnectionLimits, Connections } from "./connections.ts";
import { WrongTokens } from "./request-limits.ts";

/** Load limits. Each is read whenever it is needed, because it may change. */
export interface LoadLimits extends ConnectionLimits {
  readonly loopDelayMsMax: number;
  /** Limit per source. */
  readonly wrongTokensPerMinuteMax: number;
}

interface LoadOptions {
  readonly limits: LoadLimits;
  readonly metrics: LoadMetrics;
  readonly callers: CallerVerifier;
  /** Returns the current time in milliseconds. */
  readonly clock: () => number;
}

export interface LoadGuards {
  readonly shedding: Shedding;
  readonly wrongTokens: WrongTokens;
  readonly connections: Connections;
  /** Measures the load and counts the connections, until the returned function is called. */
  watch(): () => void;
  /** Counts the answer whose head is set. Returns a function to be called when it was sent; after a disconnect, it need not be. */
  answering(request: ReceivedRequest, response: ServerAnswer, bodyBytes: number): (() => void) | undefined;
}

export function createLoadGuards({ limits, metrics, callers, clock }: LoadOptions): LoadGuards {
  const connections = new Connections(limits, (end) => metrics.ended(end));
  const shedding = new Shedding({
    get delayMsMax() {
      return limits.loopDelayMsMax;
    },
    now: clock,
    observe: (ms) => metrics.delayed(ms),
  });
  const wrongTokens = new WrongTokens({
    get perMinuteMax() {
      return limits.wrongTokensPerMinuteMax;
    },
    knows: (authorization) => callers.knows(authorization),
    clock,
  });
  return {
    shedding,
    wrongTokens,
    connections,
    watch() {
      metrics.watchConnections(() => connections.size);
      const measuring = setInterval(() => shedding.measure(), LOOP_MEASURE_EVERY_MS);
      measuring.unref();
      return () => clearInterval(measuring);
    },
    answering(request, response, bodyBytes) {
      if (response.statusCode === 401) wrongTokens.count(request);
      return connections.answering(request.socket, response, bodyBytes);
    },
  };
}

export interface LoadMetrics {
  delayed(ms: number): void;
  /** Records a call that was refused before its body was read. */
  shed(reason: "loop_delay" | "requests"): void;
  ended(reason: ConnectionEnd): void;
  /** Records a request for an unknown route, or with a method that the route does not support. */
  unknownRoute(): void;
  watchConnections(count: () => number): void;
}

const DELAY_SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

/** `ofProcess` gets what a process counts once, whatever tenants it has. */
export function createLoadMetrics(registers: Registry[], ofProcess: Registry[]): LoadMetrics {
  const delay = new Histogram({
    name: "stc_event_loop_delay_seconds",
    help: "Delay of the event loop, measured 20 times a second",
    buckets: DELAY_SECONDS,
    registers: ofProcess,
  });
  const shed = new Counter({
    name: "stc_shed_total",
    help: "Calls refused before their body was read: the event loop was late, or there were too many requests",
    labelNames: ["reason"],
    registers,
  });
  const ended = new Counter({
    name: "stc_connections_ended_total",
    help: "Connections that the service closed: too many (from one source or in all), too slow, or not sending a valid request",
    labelNames: ["reason"],
    registers: ofProcess,
  });
  const unknown = new Counter({
    name: "stc_unknown_routes_total",
    help: "Requests for an unknown route or with an unsupported method",
    registers,
  });
  const counts: (() => number)[] = [];
  return {
    delayed: (ms) => delay.observe(ms / 1000),
    shed: (reason) => shed.inc({ reason }),
    ended: (reason) => ended.inc({ reason }),
    unknownRoute: () => unknown.inc(),
    watchConnections(count) {
      counts.push(count);
      if (counts.length > 1) return;
      new Gauge({
        name: "stc_connections",
        help: "Open connections that have sent a request",
        registers: ofProcess,
        collect() {
          this.set(counts.reduce((sum, each) => sum + each(), 0));
        },
      });
    },
  };
}
