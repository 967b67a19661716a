import { Refusal } from "../../../core/errors.ts";
import { type ChannelState as Connectivity, type GrpcEndpoint, SystemConnections, type ToolClass } from "./link.ts";

export interface SystemChannelState {
  readonly system: string;
  readonly toolClass: ToolClass;
  readonly state: Connectivity;
}

interface Opened {
  readonly system: string;
  readonly toolClass: ToolClass;
  readonly link: SystemConnections;
}

const WORST_FIRST = ["SHUTDOWN", "TRANSIENT_FAILURE", "CONNECTING", "IDLE", "READY"] as const;

/** All channels: one per system and tool class, lazily connected, reused until closed. */
export class Channels {
  readonly #endpoints: Map<string, GrpcEndpoint>;
  readonly #opened = new Map<string, Opened>();
  #closed = false;

  constructor(endpoints: ReadonlyMap<string, GrpcEndpoint>) {
    this.#endpoints = new Map(endpoints);
  }

  /** Returns how the system is reached now. */
  endpoint(system: string): GrpcEndpoint {
    const endpoint = this.#endpoints.get(system);
    if (endpoint === undefined) throw new Error(`no system ${system}`);
    return endpoint;
  }

  link(system: string, toolClass: ToolClass): SystemConnections {
    if (this.#closed) throw new Refusal("SHUTTING_DOWN", "The service is shutting down.");
    const key = `${toolClass} ${system}`;
    const known = this.#opened.get(key);
    if (known !== undefined) return known.link;
    const link = new SystemConnections(this.endpoint(system), toolClass);
    this.#opened.set(key, { system, toolClass, link });
    return link;
  }

  /**
   * Switches the system to another endpoint. Opens new connections while the old ones stay, and only when that has succeeded
   * directs new calls to them and closes the old ones, whose calls run to their end. Returns false, and changes nothing, when
   * fewer of the new connections than of the old ones are ready, or when the channels are closed.
   */
  async replace(system: string, endpoint: GrpcEndpoint): Promise<boolean> {
    const before = this.#linksOf(system);
    if (!(await this.#exchange(before, endpoint))) return false;
    this.#endpoints.set(system, endpoint);
    // Links that were opened during the exchange still use the old endpoint.
    await this.#exchange(
      this.#linksOf(system).filter((link) => !before.includes(link)),
      endpoint,
    );
    return true;
  }

  /** Returns the worst state of the system's channels; IDLE before the first call. */
  state(system: string): Connectivity {
    const states = this.#linksOf(system).map((link) => link.state());
    return WORST_FIRST.find((state) => states.includes(state)) ?? "IDLE";
  }

  states(): readonly SystemChannelState[] {
    return [...this.#opened.values()].map(({ system, toolClass, link }) => ({
      system,
      toolClass,
      state: link.state(),
    }));
  }

  /** Open calls run to their end; new ones are refused. */
  close(): void {
    this.#closed = true;
    for (const { link } of this.#opened.values()) link.close();
  }

  async #exchange(links: readonly SystemConnections[], endpoint: GrpcEndpoint): Promise<boolean> {
    const pairs = links.map((link) => ({ link, successor: new SystemConnections(endpoint, link.toolClass) }));
    const work = pairs.map(async ({ link, successor }) => (await successor.connectAll()) >= link.readyCount());
    const isAsGood = (await Promise.all(work)).every((good) => good);
    for (const { link, successor } of pairs) {
      if (isAsGood && !this.#closed) link.becomes(successor);
      else successor.close();
    }
    return isAsGood && !this.#closed;
  }

  #linksOf(system: string): readonly SystemConnections[] {
    return [...this.#opened.values()].filter((opened) => opened.system === system).map(({ link }) => link);
  }
}
