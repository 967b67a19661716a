import { Agent, type ClientRequest } from "node:http";
import { Agent as TlsAgent } from "node:https";
import { addressProblem, literalAddress, OPERATED_ADDRESSES } from "./addresses.ts";
import { checkedLookup, ForbiddenAddress, systemResolve } from "./checked-lookup.ts";
import { tlsOptions } from "./client.ts";
import { boundInterimAnswers } from "./request.ts";

declare module "node:http" {
  interface Agent {
    /** Called for every request that uses the agent. */
    addRequest(request: ClientRequest, options: object): void;
  }
}

/**
 * Returns an agent for a library that sends its requests itself: to servers of the operator, and ending in time whatever the
 * server does.
 */
export function libraryAgent(protocol: string, timeoutMs: number): Agent {
  const lookup = checkedLookup(OPERATED_ADDRESSES, systemResolve);
  const common = { keepAlive: true, lookup, family: 0 };
  const agent = protocol === "https:" ? new TlsAgent({ ...common, ...tlsOptions(undefined) }) : new Agent(common);
  const add = agent.addRequest.bind(agent);
  agent.addRequest = (request, target) => {
    boundRequest(request, timeoutMs);
    const literal = literalAddress(request.host);
    const problem = literal === undefined ? undefined : addressProblem(literal, OPERATED_ADDRESSES);
    if (problem === undefined) add(request, target);
    else request.destroy(new ForbiddenAddress(problem));
  };
  return agent;
}

function boundRequest(request: ClientRequest, timeoutMs: number): void {
  boundInterimAnswers(request);
  // An upgrade is never requested, and the runtime reports no error for it.
  request.on("upgrade", (_response, socket) => {
    socket.destroy();
    request.emit("error", new Error("another protocol"));
  });
  const deadline = setTimeout(() => request.destroy(new Error(`no complete answer within ${timeoutMs} ms`)), timeoutMs);
  deadline.unref();
  request.once("close", () => clearTimeout(deadline));
}
