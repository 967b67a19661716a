import type { Server as HttpServer, IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** The latest request of a connection, its response, and the response before it if that was still unfinished. */
interface Owed {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly before: ServerResponse | undefined;
}

/**
 * Tracks the answers that a connection still waits for. Bytes that are not a valid request may follow a request that is still
 * running: an immediate refusal would be taken for that request's answer.
 */
export class AnswersOwed {
  readonly #latest = new WeakMap<Socket, Owed>();
  /** Connections whose last answer has been announced with `Connection: close`. */
  readonly #ending = new WeakSet<Socket>();

  /**
   * Runs before the server's own listeners, which are not notified of requests that follow on a connection that is ending.
   */
  watch(server: HttpServer): void {
    const listeners = server.listeners("request");
    server.removeAllListeners("request");
    server.on("request", (request: IncomingMessage, response: ServerResponse) => {
      const { socket } = request;
      if (this.#ending.has(socket)) return;
      const last = this.#latest.get(socket)?.response;
      this.#latest.set(socket, { request, response, before: isOwed(last) ? last : undefined });
      for (const listener of listeners) listener.call(server, request, response);
    });
  }

  /** Returns true when no later request arrived on the same connection: only then may its answer be the last. */
  isLatest(request: IncomingMessage): boolean {
    return this.#latest.get(request.socket)?.request === request;
  }

  /**
   * Records that this answer says `Connection: close`: anything that follows on the connection is ignored (RFC 9112, 9.6).
   */
  endsWith({ socket }: IncomingMessage): void {
    this.#ending.add(socket);
  }

  isEnding(socket: Socket): boolean {
    return this.#ending.has(socket);
  }

  /** Calls back when all complete requests on the connection are answered; immediately if they already are. */
  settled(socket: Socket, then: () => void): void {
    const latest = this.#latest.get(socket);
    // An incomplete request is the one that failed to parse: its answer is the one waiting here.
    const last = latest?.request.complete === false ? latest.before : latest?.response;
    if (isOwed(last)) last.once("close", then);
    else then();
  }
}

function isOwed(response: ServerResponse | undefined): response is ServerResponse {
  return response !== undefined && !response.writableFinished && !response.destroyed;
}
