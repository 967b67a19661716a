import { Agent, type ClientRequest } from "node:http";
import { Agent as TlsAgent } from "node:https";
import { boundInterimAnswers } from "../../core/interim-answers.ts";

declare module "node:http" {
  interface Agent {
    /** Where every request that uses the agent passes. */
    addRequest(request: ClientRequest, options: object): void;
  }
}

/**
 * An agent whose requests end in time, whatever the far side does: the exporter's own deadline begins anew with every byte, and
 * a request that never ends keeps its place among those that may be under way.
 */
export function boundedAgent(protocol: string, timeoutMs: number): Agent {
  // Said outright: a variable of the environment could switch it off.
  const options = { keepAlive: true, rejectUnauthorized: true };
  const agent = protocol === "https:" ? new TlsAgent(options) : new Agent(options);
  const add = agent.addRequest.bind(agent);
  agent.addRequest = (request, target) => {
    bound(request, timeoutMs);
    add(request, target);
  };
  return agent;
}

function bound(request: ClientRequest, timeoutMs: number): void {
  boundInterimAnswers(request);
  // Nobody asked for another protocol, and the runtime tells of no error.
  request.on("upgrade", (_response, socket) => {
    socket.destroy();
    request.emit("error", new Error("another protocol"));
  });
  const deadline = setTimeout(() => request.destroy(new Error(`no whole answer within ${timeoutMs} ms`)), timeoutMs);
  deadline.unref();
  request.once("close", () => clearTimeout(deadline));
}
