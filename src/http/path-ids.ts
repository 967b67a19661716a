import type { FastifyRequest } from "fastify";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
/** 128 characters, plus the prefix `sid:` for sessions that a token names. */
const SESSION_ID = /^[\x21-\x7e]{1,132}$/;

/** Returns true when the text has the form of an approval or grant id; the store is queried only for such ids. */
export function isId(text: string): boolean {
  return UUID.test(text);
}

/** Returns the id in the path when it has the form of an approval or grant id. */
export function idOf(request: FastifyRequest): string | undefined {
  const id = pathId(request);
  return id !== undefined && isId(id) ? id : undefined;
}

/** Returns the session id in the path: one that the service generated, or a token's `sid`. */
export function sessionIdOf(request: FastifyRequest): string | undefined {
  const id = pathId(request);
  return id !== undefined && SESSION_ID.test(id) ? id : undefined;
}

function pathId({ params }: FastifyRequest): string | undefined {
  if (typeof params !== "object" || params === null || !("id" in params)) return undefined;
  return typeof params.id === "string" ? params.id : undefined;
}
