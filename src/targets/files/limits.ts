import type { Caller } from "../../core/types.ts";

/** What one agent may read and write in one call. */
export interface AgentLimits {
  /** Bytes of content that a read answers. */
  readonly maxReadBytes: number;
  /** Bytes of a file that a write may leave. */
  readonly maxWriteBytes: number;
}

export interface FsLimits extends AgentLimits {
  /** A larger file is neither read nor replaced. */
  readonly fileBytesMax: number;
  /** Of one search. */
  readonly search: SearchLimits;
  /** Other limits for some callers. */
  readonly agents: readonly AgentsOwn[];
}

interface AgentsOwn {
  readonly issuer: string;
  readonly subject: string;
  readonly maxReadBytes?: number | undefined;
  readonly maxWriteBytes?: number | undefined;
}

export interface SearchLimits {
  readonly filesMax: number;
  readonly bytesMax: number;
  /** A larger file is passed over, and counted. */
  readonly fileBytesMax: number;
  readonly timeMs: number;
}

/** A caller is the pair (issuer, subject). */
export function limitsOf(limits: FsLimits, { issuer, subject }: Pick<Caller, "issuer" | "subject">): AgentLimits {
  const own = limits.agents.find((agent) => agent.issuer === issuer && agent.subject === subject);
  return {
    maxReadBytes: own?.maxReadBytes ?? limits.maxReadBytes,
    maxWriteBytes: own?.maxWriteBytes ?? limits.maxWriteBytes,
  };
}

/** The most that anybody may write: what a plan, which does not know who asks, can hold a content to. */
export function maxWriteBytesOfAll({ maxWriteBytes, agents }: FsLimits): number {
  return Math.max(maxWriteBytes, ...agents.map((agent) => agent.maxWriteBytes ?? 0));
}
