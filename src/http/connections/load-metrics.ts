import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { ConnectionEnd } from "./connections.ts";

export interface LoadMetrics {
  /** The event loop was so late, in milliseconds. */
  delayed(ms: number): void;
  /** A call was refused before its body was read. */
  shed(reason: "loop_delay" | "requests"): void;
  ended(reason: ConnectionEnd): void;
  /** A request for a route, or with a method, that there is none of. */
  unknownRoute(): void;
  watchConnections(count: () => number): void;
}

const DELAY_SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];

export function createLoadMetrics(registers: Registry[]): LoadMetrics {
  const delay = new Histogram({
    name: "stc_event_loop_delay_seconds",
    help: "How late the event loop was, looked at 20 times a second",
    buckets: DELAY_SECONDS,
    registers,
  });
  const shed = new Counter({
    name: "stc_shed_total",
    help: "Calls that were refused before their body was read: the event loop was late, or too many requests were there",
    labelNames: ["reason"],
    registers,
  });
  const ended = new Counter({
    name: "stc_connections_ended_total",
    help: "Connections that the service ended: too many, of one source or in all, or what came or was taken too slowly or was no request",
    labelNames: ["reason"],
    registers,
  });
  const unknown = new Counter({
    name: "stc_unknown_routes_total",
    help: "Requests for a route, or with a method, that there is none of",
    registers,
  });
  return {
    delayed: (ms) => delay.observe(ms / 1000),
    shed: (reason) => shed.inc({ reason }),
    ended: (reason) => ended.inc({ reason }),
    unknownRoute: () => unknown.inc(),
    watchConnections(count) {
      new Gauge({
        name: "stc_connections",
        help: "Open connections that have sent a request",
        registers,
        collect() {
          this.set(count());
        },
      });
    },
  };
}
