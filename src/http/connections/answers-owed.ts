import type { Server as HttpServer, IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** The latest request of a connection, and the answer before its own when that was still owed then. */
interface Owed {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly before: ServerResponse | undefined;
}

/**
 * Which answers a connection still waits for. What is no request may follow one that runs: said at once, its refusal would
 * be taken for the answer to that.
 */
export class AnswersOwed {
  readonly #latest = new WeakMap<Socket, Owed>();
  /** Connections whose last answer has been announced. */
  readonly #ending = new WeakSet<Socket>();

  /** Stands before the server's own listeners, which do not hear of what follows on a connection that is ending. */
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

  /** Whether no later request came on the same connection: only then may its answer be the last. */
  isLatest(request: IncomingMessage): boolean {
    return this.#latest.get(request.socket)?.request === request;
  }

  /** This answer says `Connection: close`: nothing that follows on the connection is read as a request or answered (RFC 9112, 9.6). */
  endsWith({ socket }: IncomingMessage): void {
    this.#ending.add(socket);
  }

  isEnding(socket: Socket): boolean {
    return this.#ending.has(socket);
  }

  /** Calls back when all that came whole over the connection is answered: at once when it is. */
  settled(socket: Socket, then: () => void): void {
    const latest = this.#latest.get(socket);
    // A request that is not whole is the one that broke off: its answer is what waits here.
    const last = latest?.request.complete === false ? latest.before : latest?.response;
    if (isOwed(last)) last.once("close", then);
    else then();
  }
}

function isOwed(response: ServerResponse | undefined): response is ServerResponse {
  return response !== undefined && !response.writableFinished && !response.destroyed;
}
