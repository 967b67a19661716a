import { Agent, type ClientRequest } from "node:http";
import { Agent as TlsAgent } from "node:https";
import type { LookupFunction } from "node:net";
import { addressProblem, literalAddress, OPERATED_ADDRESSES } from "./addresses.ts";
import { INTERIM_ANSWERS_MAX, InterimAnswers } from "./answer-reader.ts";
import { checkedAddresses, ForbiddenAddress, systemResolve } from "./checked-lookup.ts";

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
  const common = { keepAlive: true, lookup: checkedLookup, family: 0 };
  // Verifies certificates whatever the environment says.
  const agent = protocol === "https:" ? new TlsAgent({ ...common, rejectUnauthorized: true }) : new Agent(common);
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

const checked = checkedAddresses(OPERATED_ADDRESSES, systemResolve);

const checkedLookup: LookupFunction = (hostname, _options, callback) => {
  checked(hostname)
    .then((addresses) => {
      const all = addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
      callback(null, all);
    })
    .catch((error: NodeJS.ErrnoException) => callback(error, []));
};

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

/** Aborts a request whose server keeps sending interim answers: the runtime does not limit them. */
function boundInterimAnswers(request: ClientRequest): void {
  let count = 0;
  request.on("information", () => {
    count += 1;
    if (count === INTERIM_ANSWERS_MAX) request.destroy(new InterimAnswers());
  });
}
