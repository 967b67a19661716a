import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { IssuerKeys } from "../../src/pipeline/identity/issuer-keys.ts";
import { jwksUrl } from "../../src/pipeline/identity/remote-keys.ts";
import type { SigningKey } from "./tokens.ts";

/** A key server on an ephemeral loopback port. `answer` may be replaced at any time; `requests` counts. */
export interface JwksServer {
  readonly url: string;
  requests: number;
  answer: (response: ServerResponse) => void;
  close(): void;
}

/** Answers with the public keys of `keys`. */
export function publish(...keys: readonly SigningKey[]): (response: ServerResponse) => void {
  const body = JSON.stringify({ keys: keys.map((key) => key.jwk) });
  return (response) => response.setHeader("content-type", "application/json").end(body);
}

export async function startJwksServer(...keys: readonly SigningKey[]): Promise<JwksServer> {
  const server = createServer((_request, response) => {
    state.requests += 1;
    state.answer(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const state: JwksServer = {
    url: `http://127.0.0.1:${port}/jwks.json`,
    requests: 0,
    answer: publish(...keys),
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
  return state;
}

/** The keys of an issuer whose JWKS is at this URL, at the time 0. */
export function keysAt(url: string, timeoutMs: number): IssuerKeys {
  const context = { algorithms: ["ES256"], clock: () => 0, timeoutMs };
  const keys = jwksUrl(url).open({ ...context, known: () => undefined, onChange: () => {} });
  if (!("candidates" in keys)) throw new Error(keys.join("\n"));
  return keys;
}
