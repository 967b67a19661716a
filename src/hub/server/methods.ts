import { z } from "zod";
import { Capacity, type CapacityShare } from "../../core/capacity.ts";
import { sha256Hex } from "../../core/digest.ts";
import { Semaphore } from "../../database/semaphore.ts";
import type { HubMember, HubMethod } from "../contract.ts";
import { HubRefusal, HubUnavailable } from "../errors.ts";
import { decodeWire, encodeWire, HUB_BYTES_MAX, WireError } from "../wire.ts";
import { decrease } from "./counts.ts";

/** Maximum number of open requests of all members of all tenants, without those that wait. */
const TOTAL_MAX = 1_024;
/**
 * Requests of a tenant's members that are carried out at once: as many as there are connections to the database, and some that are
 * read or written. The others wait in their order until their members give up: the hub must not work for members that no longer wait.
 */
const AT_ONCE_MAX = 12;
/** Longest wait for that. */
const TURN_MS_MAX = 5_000;
/** Waiting requests of one instance. It needs one; earlier ones may not have ended yet. */
const WAITING_MAX = 8;
/** Streams of one instance. It needs one; earlier ones may not have ended yet. */
const STREAMS_MAX = 4;
/** Waiting requests, and streams, of all instances of a member, which chooses their ids itself. */
const INSTANCES_MAX = 1_024;
/** Bytes of open requests, of one member and of all members of all tenants. */
const BYTES_PER_MEMBER_MAX = 4 * HUB_BYTES_MAX;
const BYTES_MAX = 16 * HUB_BYTES_MAX;
const RETRY_AFTER_MS = 200;
const ISSUES_MAX = 5;

/** The hub has no room for a request now. */
export class HubBusy extends Error {
  override readonly name = "HubBusy";
  readonly retryAfterMs = RETRY_AFTER_MS;
}

const envelope = z.strictObject({ id: z.string().regex(/^[A-Za-z0-9_-]{16,64}$/), input: z.unknown() });

/** The room for open requests that the members of all tenants share. */
export class MethodRoom {
  readonly #requests = new Capacity(TOTAL_MAX);
  readonly #bytes = new Capacity(BYTES_MAX);

  join(): { readonly requests: CapacityShare; readonly bytes: CapacityShare } {
    return { requests: this.#requests.join(), bytes: this.#bytes.join() };
  }
}

interface MethodsOptions {
  readonly perMemberMax: () => number;
  readonly room: MethodRoom;
}

/**
 * The methods of a hub for the members of one tenant, with limits for each member: a noisy member does not take the room of the
 * others.
 */
export class Methods {
  readonly #methods: ReadonlyMap<string, HubMethod>;
  readonly #perMemberMax: () => number;
  readonly #room: ReturnType<MethodRoom["join"]>;
  readonly #turns = new Semaphore({
    permits: AT_ONCE_MAX,
    waitMs: TURN_MS_MAX,
    refused: () => new HubBusy("too many requests wait"),
  });
  readonly #running = new Map<string, number>();
  readonly #waiting = new Map<string, number>();
  readonly #streams = new Map<string, number>();
  readonly #bytes = new Map<string, number>();

  constructor(methods: readonly HubMethod[], { perMemberMax, room }: MethodsOptions) {
    this.#methods = new Map(methods.map((method) => [method.name, method]));
    if (this.#methods.size < methods.length) throw new Error("two methods of the hub have the same name");
    this.#perMemberMax = perMemberMax;
    this.#room = room.join();
  }

  has(name: string): boolean {
    return this.#methods.has(name);
  }

  isProbe(name: string): boolean {
    return this.#methods.get(name)?.isProbe === true;
  }

  /**
   * Takes room for a request of the member. Returns the function that gives it back.
   *
   * @throws {HubBusy}
   */
  enter({ name, instance }: HubMember, method: string): () => void {
    if (this.#methods.get(method)?.waits === true) return countedBoth(this.#waiting, { name, instance }, WAITING_MAX);
    const { requests } = this.#room;
    if (requests.isFull()) throw new HubBusy("too many requests are open at once");
    const leave = counted(this.#running, name, this.#perMemberMax());
    requests.take();
    return () => {
      requests.release();
      leave();
    };
  }

  /**
   * Takes room for a stream of the member. Returns the function that gives it back.
   *
   * @throws {HubBusy}
   */
  enterStream(member: HubMember): () => void {
    return countedBoth(this.#streams, member, STREAMS_MAX);
  }

  /**
   * Takes room for bytes of a request. Returns the function that gives it back.
   *
   * @throws {HubBusy}
   */
  hold({ name }: HubMember, bytes: number): () => void {
    const held = this.#bytes.get(name) ?? 0;
    const { bytes: room } = this.#room;
    if (held + bytes > BYTES_PER_MEMBER_MAX || room.isFull(bytes)) {
      throw new HubBusy("too many bytes of requests are being read at once");
    }
    room.take(bytes);
    this.#bytes.set(name, held + bytes);
    return () => {
      room.release(bytes);
      decrease(this.#bytes, name, bytes);
    };
  }

  /** Returns the answer's body. Rejects with `HubRefusal`, or with `HubUnavailable` for everything else that fails. */
  async answer(
    name: string,
    body: Uint8Array,
    { member, signal }: { readonly member: HubMember; readonly signal: AbortSignal },
  ): Promise<string> {
    const method = this.#methods.get(name);
    if (method === undefined) {
      throw new HubRefusal(
        403,
        "METHOD_NOT_OFFERED",
        "members may not ask for this: operators do it at the hub itself",
      );
    }
    const { id, input } = parsed(envelope, read(body));
    const digest = sha256Hex(`${name} ${sha256Hex(body)}`);
    const valid = parsed(method.input, input, "input");
    const takesTurn = method.waits !== true;
    if (takesTurn) await this.#turns.acquire(signal);
    try {
      const { value, now } = await method.handle(valid, { member, id, digest, signal });
      return encodeWire({ id, value, now });
    } catch (error) {
      if (error instanceof HubRefusal) throw error;
      throw new HubUnavailable("the hub's store does not answer", { cause: error });
    } finally {
      if (takesTurn) this.#turns.release();
    }
  }
}

/**
 * Counts for the instance, and for the member: no id of an instance is empty. Returns the function that ends both.
 *
 * @throws {HubBusy}
 */
function countedBoth(
  counts: Map<string, number>,
  { name, instance }: Pick<HubMember, "name" | "instance">,
  max: number,
): () => void {
  const leave = counted(counts, `${name} ${instance}`, max);
  try {
    const leaveAll = counted(counts, `${name} `, INSTANCES_MAX);
    return () => {
      leave();
      leaveAll();
    };
  } catch (error) {
    leave();
    throw error;
  }
}

/** Counts one more. Returns the function that ends it. @throws {HubBusy} */
function counted(counts: Map<string, number>, key: string, max: number): () => void {
  const count = counts.get(key) ?? 0;
  if (count >= max) throw new HubBusy("the member has too many requests open at once");
  counts.set(key, count + 1);
  return () => decrease(counts, key);
}

function read(body: Uint8Array): unknown {
  try {
    return decodeWire(body);
  } catch (error) {
    if (error instanceof WireError) throw malformed(error.message);
    throw error;
  }
}

function parsed<Value>(schema: z.ZodType<Value>, value: unknown, at?: string): Value {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issues = result.error.issues.slice(0, ISSUES_MAX);
  const texts = issues.map(
    ({ path, message }) => `${[...(at === undefined ? [] : [at]), ...path].join(".")}: ${message}`,
  );
  throw malformed(texts.join("; "));
}

function malformed(message: string): HubRefusal {
  return new HubRefusal(400, "MALFORMED_REQUEST", message);
}
