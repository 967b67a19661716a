import type { IncomingHttpHeaders } from "node:http";
import type { ClientCertificate } from "../pipeline/identity/binding.ts";

/** Requests and answers as endpoints and guards see them. Both HTTP servers have such objects; node's own classes are some. */

/** The connection of a request: tells requests of different clients apart. */
export interface PeerConnection {
  /** Undefined on the Unix socket. */
  readonly remoteAddress?: string | undefined;
  /** The client's certificate, where the server keeps it with the connection. */
  readonly certificate?: ClientCertificate | undefined;
}

/** A request as the server received it. Both servers have such requests; node's own class is one. */
export interface ReceivedRequest {
  readonly method?: string | undefined;
  /** The request target as sent. */
  readonly url?: string | undefined;
  readonly httpVersion: string;
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders;
  /** Names and values as sent, in turn. */
  readonly rawHeaders: readonly string[];
  readonly socket: PeerConnection;
  /** True when the whole request has arrived. */
  readonly complete: boolean;
  /** Returns the whole body, once, if it has arrived and nobody has read from it. Not all servers know. */
  takeBody?(): Uint8Array | undefined;
  /** Discards what is left of the body. */
  resume(): unknown;
  on(event: "data", listener: (chunk: Buffer) => void): unknown;
  on(event: "end" | "close" | "error", listener: () => void): unknown;
  off(event: "data", listener: (chunk: Buffer) => void): unknown;
}

/** What a server knows of the order of a connection's answers. */
export interface AnswerOrder<Request extends ReceivedRequest> {
  /** Returns true when no later request arrived on the same connection: only then may its answer be the last. */
  isLatest(request: Request): boolean;
  /** Records that the answer to this request will say `Connection: close`: later requests are ignored (RFC 9112, 9.6). */
  willEndWith(request: Request): void;
  /** Records that this answer says `Connection: close`: anything that follows on the connection is ignored. */
  endsWith(request: Request): void;
}

export type AnswerHeaders = Record<string, string | number | string[]>;

/** The answer to one request, as a server writes it. Both servers have such responses; node's own class is one. */
export interface ServerAnswer {
  readonly statusCode: number;
  /** True when the client has disconnected. */
  readonly destroyed: boolean;
  /** True when `end` was called. */
  readonly writableEnded: boolean;
  /** True when the whole answer was passed to the system. */
  readonly writableFinished: boolean;
  hasHeader(name: string): boolean;
  writeHead(status: number, headers: AnswerHeaders): unknown;
  /** Returns false when the client is behind: then `drain` follows. */
  write(part: string | Uint8Array): boolean;
  end(sent?: () => void): unknown;
  end(part: string | Uint8Array | undefined, sent?: () => void): unknown;
  destroy(): unknown;
  on(event: "close" | "error", listener: () => void): unknown;
  once(event: "close" | "drain", listener: () => void): unknown;
  removeListener(event: "drain", listener: () => void): unknown;
}
