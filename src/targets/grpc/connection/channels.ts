import { Refusal } from "../../../core/errors.ts";
import { type ChannelState, type ConnectionSettings, SystemConnections } from "../../../egress/grpc/connections.ts";

/**
 * Many cancellations on one channel reset unrelated calls on it. So changes have a channel of their own, and so have
 * streams, which are routinely cancelled at their limits.
 */
export type ToolClass = "read" | "change" | "stream";

/** Maximum size up to which the answer of a change is received (but not read), because the status comes after it. */
const CHANGE_ANSWER_BYTES_MAX = 16_777_216;

function connectionsFor(settings: ConnectionSettings, toolClass: ToolClass): SystemConnections {
  return new SystemConnections(
    toolClass === "change" ? { ...settings, maxReceivedBytes: CHANGE_ANSWER_BYTES_MAX } : settings,
  );
}

export interface SystemChannelState {
  readonly system: string;
  readonly toolClass: ToolClass;
  readonly state: ChannelState;
}

interface OpenedChannel {
  readonly system: string;
  readonly toolClass: ToolClass;
  readonly link: SystemConnections;
}

const WORST_FIRST = ["SHUTDOWN", "TRANSIENT_FAILURE", "CONNECTING", "IDLE", "READY"] as const;

/** All channels, one per system and tool class. They connect at the first call and stay until closed. */
export class Channels {
  readonly #settings: Map<string, ConnectionSettings>;
  readonly #opened = new Map<string, OpenedChannel>();
  #closed = false;

  constructor(settings: ReadonlyMap<string, ConnectionSettings>) {
    this.#settings = new Map(settings);
  }

  settings(system: string): ConnectionSettings {
    const settings = this.#settings.get(system);
    if (settings === undefined) throw new Error(`no system ${system}`);
    return settings;
  }

  link(system: string, toolClass: ToolClass): SystemConnections {
    if (this.#closed) throw new Refusal("SHUTTING_DOWN", "The service is shutting down.");
    const key = `${toolClass} ${system}`;
    const known = this.#opened.get(key);
    if (known !== undefined) return known.link;
    const link = connectionsFor(this.settings(system), toolClass);
    this.#opened.set(key, { system, toolClass, link });
    return link;
  }

  /**
   * Switches the system to other settings: opens new connections, then sends new calls to them and closes the old ones,
   * whose calls run to their end. Returns false, and changes nothing, when fewer new connections than old ones are
   * ready, or the channels are closed.
   */
  async replace(system: string, settings: ConnectionSettings): Promise<boolean> {
    const before = this.#channelsOf(system);
    if (!(await this.#exchange(before, settings))) return false;
    this.#settings.set(system, settings);
    // Links that were opened during the exchange still use the old settings.
    const opened = this.#channelsOf(system).filter((channel) => !before.includes(channel));
    await this.#exchange(opened, settings);
    return true;
  }

  /** Returns the worst state of the system's channels; IDLE before the first call. */
  state(system: string): ChannelState {
    const states = this.#channelsOf(system).map(({ link }) => link.state());
    return WORST_FIRST.find((state) => states.includes(state)) ?? "IDLE";
  }

  states(): readonly SystemChannelState[] {
    return [...this.#opened.values()].map(({ system, toolClass, link }) => {
      return { system, toolClass, state: link.state() };
    });
  }

  /** Open calls run to their end; new ones are refused. */
  close(): void {
    this.#closed = true;
    for (const { link } of this.#opened.values()) link.close();
  }

  async #exchange(channels: readonly OpenedChannel[], settings: ConnectionSettings): Promise<boolean> {
    const pairs = channels.map(({ link, toolClass }) => ({ link, successor: connectionsFor(settings, toolClass) }));
    const work = pairs.map(async ({ link, successor }) => (await successor.connectAll()) >= link.readyCount());
    const isAsGood = (await Promise.all(work)).every((good) => good);
    for (const { link, successor } of pairs) {
      if (isAsGood && !this.#closed) link.takeOver(successor);
      else successor.close();
    }
    return isAsGood && !this.#closed;
  }

  #channelsOf(system: string): readonly OpenedChannel[] {
    return [...this.#opened.values()].filter((opened) => opened.system === system);
  }
}
