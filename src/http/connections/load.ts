import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { CallerContext } from "../../pipeline/caller-context.ts";
import { LOOP_LOOK_EVERY_MS, Shedding } from "../../pipeline/limits/shedding.ts";
import { type ConnectionLimits, Connections } from "./connections.ts";
import type { LoadMetrics } from "./load-metrics.ts";
import { WrongTokens } from "./wrong-tokens.ts";

/** Each is read when it is needed: it may change. */
export interface LoadLimits extends ConnectionLimits {
  /** How late the event loop may be before work is shed. */
  readonly loopDelayMsMax: number;
  /** Of one source. */
  readonly wrongTokensPerMinuteMax: number;
}

export interface LoadOptions {
  readonly limits: LoadLimits;
  readonly metrics: LoadMetrics;
  readonly callers: CallerContext;
  /** In milliseconds. */
  readonly clock: () => number;
}

interface LeavingAnswer {
  readonly reply: FastifyReply;
  /** Of its body. */
  readonly bytes: number;
}

/** What keeps the load of a door within bounds. */
export interface LoadGuards {
  readonly shedding: Shedding;
  readonly wrongTokens: WrongTokens;
  /** Bounds the connections of the door, and watches whether the event loop keeps up. */
  watch(app: FastifyInstance): void;
  /** Told of every answer that is about to be sent. */
  answering(request: FastifyRequest, answer: LeavingAnswer): void;
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
    watch(app) {
      connections.guard(app.server);
      metrics.watchConnections(() => connections.size);
      const looks = setInterval(() => shedding.look(), LOOP_LOOK_EVERY_MS);
      looks.unref();
      app.addHook("onClose", (_app, done) => {
        clearInterval(looks);
        done();
      });
    },
    answering({ raw }, { reply, bytes }) {
      if (reply.statusCode === 401) wrongTokens.count(raw);
      connections.answering(raw.socket, { response: reply.raw, bytes });
    },
  };
}
