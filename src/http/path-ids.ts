import type { FastifyRequest } from "fastify";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
/** 128 characters, and `sid:` before those that a token names. */
const SESSION_ID = /^[\x21-\x7e]{1,132}$/;

/** Whether this could be the id of an approval or a grant: the store is not asked for anything else. */
export function isId(text: string): boolean {
  return UUID.test(text);
}

/** The id in the path, when it has the form of ours. */
export function idOf(request: FastifyRequest): string | undefined {
  const id = pathId(request);
  return id !== undefined && isId(id) ? id : undefined;
}

/** A session's id is a random one of ours, or a token's `sid`. */
export function sessionIdOf(request: FastifyRequest): string | undefined {
  const id = pathId(request);
  return id !== undefined && SESSION_ID.test(id) ? id : undefined;
}

function pathId({ params }: FastifyRequest): string | undefined {
  if (typeof params !== "object" || params === null || !("id" in params)) return undefined;
  return typeof params.id === "string" ? params.id : undefined;
}
