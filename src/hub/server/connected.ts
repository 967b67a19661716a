import type { EpochMs } from "../../core/types.ts";
import type { BundleFact } from "../bundle-fact.ts";
import type { HubMember, MemberFacts } from "../contract.ts";
import { decrease } from "./counts.ts";

/** An instance of a member, as operators see it. */
export interface MemberState extends MemberFacts {
  readonly name: string;
  readonly instance: string;
  /** Time of its last request, or since when its stream is open. */
  readonly lastContact: EpochMs;
  readonly isConnected: boolean;
  readonly inFlight: number;
}

export interface CountedBundle extends Pick<BundleFact, "version" | "state"> {
  readonly members: number;
}

/** Time after the last contact of an instance, after which it is forgotten. */
const FORGET_MS = 3_600_000;
const INSTANCES_MAX = 20_000;
/** Instances of one member, which chooses their ids itself. */
const OWN_INSTANCES_MAX = 1_024;

type Entry = { -readonly [Key in keyof MemberState]: MemberState[Key] } & { streams: number };

/** The instances of members that this hub has heard of. */
export class ConnectedMembers {
  readonly #clock: () => EpochMs;
  readonly #entries = new Map<string, Entry>();
  /** Number of entries by member. */
  readonly #counts = new Map<string, number>();

  constructor(clock: () => EpochMs) {
    this.#clock = clock;
  }

  /** Notes a request, or a stream. Returns the function to be called at its end. */
  enter({ name, instance }: HubMember, facts: MemberFacts, kind: "request" | "stream"): () => void {
    const key = `${name} ${instance}`;
    const entry = this.#entries.get(key) ?? this.#added(key, { name, instance });
    const end = kind === "request" ? this.#request(entry) : this.#stream(entry);
    Object.assign(entry, facts, { lastContact: this.#clock() });
    return () => {
      end();
      entry.lastContact = this.#clock();
    };
  }

  /** Number of instances whose stream is open. */
  get connected(): number {
    let count = 0;
    for (const { isConnected } of this.#entries.values()) if (isConnected) count += 1;
    return count;
  }

  /** Counts the instances whose stream is open by the version and the state of their bundle. */
  bundles(): readonly CountedBundle[] {
    const counts = new Map<string, CountedBundle>();
    for (const { isConnected, bundle } of this.#entries.values()) {
      if (!isConnected || bundle === undefined) continue;
      const { version, state } = bundle;
      const key = `${version} ${state}`;
      counts.set(key, { version, state, members: (counts.get(key)?.members ?? 0) + 1 });
    }
    return [...counts.values()];
  }

  list(): readonly MemberState[] {
    this.#forget();
    return [...this.#entries.values()]
      .map(({ streams: _, ...state }) => (state.isConnected ? { ...state, lastContact: this.#clock() } : state))
      .sort((one, other) => compared(one.name, other.name) || compared(one.instance, other.instance));
  }

  #added(key: string, names: Pick<MemberState, "name" | "instance">): Entry {
    const isFull = () =>
      this.#entries.size >= INSTANCES_MAX || (this.#counts.get(names.name) ?? 0) >= OWN_INSTANCES_MAX;
    if (isFull()) this.#forget();
    const entry = { ...names, lastContact: this.#clock(), isConnected: false, inFlight: 0, streams: 0 };
    if (!isFull()) {
      this.#entries.set(key, entry);
      this.#counts.set(names.name, (this.#counts.get(names.name) ?? 0) + 1);
    }
    return entry;
  }

  #request(entry: Entry): () => void {
    entry.inFlight += 1;
    return () => {
      entry.inFlight -= 1;
    };
  }

  #stream(entry: Entry): () => void {
    entry.streams += 1;
    entry.isConnected = true;
    return () => {
      entry.streams -= 1;
      entry.isConnected = entry.streams > 0;
    };
  }

  #forget(): void {
    const before = this.#clock() - FORGET_MS;
    for (const [key, { name, isConnected, inFlight, lastContact }] of this.#entries) {
      if (isConnected || inFlight > 0 || lastContact >= before) continue;
      this.#entries.delete(key);
      decrease(this.#counts, name);
    }
  }
}

function compared(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
