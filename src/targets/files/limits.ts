import type { Caller } from "../../core/types.ts";

/** Limits on what one agent may read and write in one call. */
export interface AgentLimits {
  /** Bytes of content that a read may return. */
  readonly maxReadBytes: number;
  /** Bytes that a file may have after a write. */
  readonly maxWriteBytes: number;
}

export interface FsLimits extends AgentLimits {
  /** Larger files are neither read nor replaced. */
  readonly fileBytesMax: number;
  /** Limits of one search. */
  readonly search: SearchLimits;
  /** Limits that differ for some callers. */
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
  /** Larger files are skipped and counted. */
  readonly fileBytesMax: number;
  readonly timeMs: number;
}

/** Returns the limits of a caller. The pair (issuer, subject) identifies a caller. */
export function limitsOf(limits: FsLimits, { issuer, subject }: Pick<Caller, "issuer" | "subject">): AgentLimits {
  const own = limits.agents.find((agent) => agent.issuer === issuer && agent.subject === subject);
  return {
    maxReadBytes: own?.maxReadBytes ?? limits.maxReadBytes,
    maxWriteBytes: own?.maxWriteBytes ?? limits.maxWriteBytes,
  };
}

/** Returns the most bytes that any caller may write: the limit for a plan, which does not know the caller. */
export function maxWriteBytesOfAll({ maxWriteBytes, agents }: FsLimits): number {
  return Math.max(maxWriteBytes, ...agents.map((agent) => agent.maxWriteBytes ?? 0));
}
