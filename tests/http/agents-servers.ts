/** The HTTP servers of the agents' listener: values of `server.http`. What holds for one of them holds for the other. */
export const AGENTS_SERVERS = ["built-in", "fastify"] as const;

export type AgentsServer = (typeof AGENTS_SERVERS)[number];
