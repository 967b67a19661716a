import { viewOf } from "../../core/audit-fields.ts";
import { type LogFolder, logsIn } from "../logs.ts";
import { type DayLine, Follower } from "./follow.ts";
import type { Position } from "./params.ts";
import { dayOf } from "./time-range.ts";
import { parseLine } from "./view.ts";

/** Follows the logs of a directory as one. */

/** The position in the log of the directory, then those in the logs of workers, with the names of their folders. */
export const FOLLOWED_ID = /^\d{4}-\d{2}-\d{2}:\d{1,15}(?:,worker-\d{1,4}:\d{4}-\d{2}-\d{2}:\d{1,15}){0,256}$/;

/**
 * Returns the positions that the id of a line names; undefined means now. An id with a future day belongs to another log and is
 * ignored.
 */
export function readFollowedId(id: string | undefined, nowMs: number): ReadonlyMap<string, Position> | undefined {
  if (id === undefined) return undefined;
  const positions = `:${id}`.split(",").map((text) => {
    const [name = "", day = "", offset] = text.split(":");
    return [name, { day, offset: Number(offset) }] as const;
  });
  return positions.some(([, { day }]) => day > dayOf(nowMs)) ? undefined : new Map(positions);
}

/** A position before all lines. */
const START: Position = { day: "0000-01-01", offset: 0 };

interface FollowedLog {
  readonly name: string;
  readonly dir: string;
  readonly follower: Follower;
  position: Position;
}

export interface FollowedLine extends DayLine {
  /** The position in each log after this line. */
  readonly id: string;
}

/** Follows all logs of an audit directory, also those of workers that start later. */
export class LogsFollower {
  readonly #dir: string;
  /** By the names of their folders; the directory's own log is the first. */
  readonly #logs = new Map<string, FollowedLog>();

  /** A log without a position in `from` has appeared since: all its lines are new. Without `from`, starts after the last lines. */
  constructor(dir: string, from?: ReadonlyMap<string, Position>) {
    this.#dir = dir;
    for (const log of logsIn(dir)) this.#follow(log, from && (from.get(log.name) ?? START));
  }

  #follow({ name, dir }: LogFolder, from: Position | undefined): void {
    const follower = new Follower(dir, from);
    const [day, offset] = [...follower.ends()].at(-1) ?? [];
    const end = day === undefined || offset === undefined ? START : { day, offset };
    this.#logs.set(name, { name, dir, follower, position: from ?? end });
  }

  /** Returns the folder of each log, and the read position in each of its day files, oldest first. */
  ends(): readonly { readonly dir: string; readonly ends: ReadonlyMap<string, number> }[] {
    return [...this.#logs.values()].map(({ dir, follower }) => ({ dir, ends: follower.ends() }));
  }

  /** Returns the complete lines written since the previous call, by time. */
  readNewLines(): readonly FollowedLine[] {
    for (const log of logsIn(this.#dir)) if (!this.#logs.has(log.name)) this.#follow(log, START);
    const logs = [...this.#logs.values()].map((log) => log.follower.readNewLines().map((line) => ({ log, line })));
    return byTime(logs, ({ line }) => line.line).map(({ log, line }) => {
      log.position = { day: line.day, offset: line.end };
      return { ...line, id: this.#id() };
    });
  }

  #id(): string {
    const texts = [...this.#logs.values()].map(({ name, position: { day, offset } }) =>
      name === "" ? `${day}:${offset}` : `${name}:${day}:${offset}`,
    );
    return texts.join(",");
  }
}

/** Merges the lines of several logs by time. A line without a time, which is foreign, stays after the one before it. */
export function byTime<Item>(logs: readonly (readonly Item[])[], lineOf: (item: Item) => string): readonly Item[] {
  const [only = []] = logs;
  if (logs.length === 1) return only;
  const timed = logs.flatMap((items) => {
    let timeMs = 0;
    return items.map((item) => {
      const members = parseLine(lineOf(item));
      timeMs = (members && viewOf(members)?.timeMs) ?? timeMs;
      return { item, timeMs };
    });
  });
  return timed.sort((one, other) => one.timeMs - other.timeMs).map(({ item }) => item);
}
