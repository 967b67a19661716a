import { type ChannelInterface, type InterceptingListener, Metadata, status } from "@grpc/grpc-js";
import { attemptFailed, type Begun, begunBy, notOneAnswer } from "./status.ts";

export interface LinkRequest {
  readonly path: string;
  readonly bytes: Buffer;
  readonly metadata?: Metadata;
  /** Milliseconds since 1970, or infinity. */
  readonly deadline: number;
  readonly signal: AbortSignal;
}

type Call = ReturnType<ChannelInterface["createCall"]>;

/**
 * One request, one answer: its bytes. Rejects with `AttemptFailed`. Drives the channel's own call, since the client above it
 * spends more on interceptors, emitters and stack traces, which nobody here has, than on the call.
 */
export function unaryCall(channel: ChannelInterface, request: LinkRequest): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const { path, bytes, metadata = new Metadata(), deadline, signal } = request;
    const call = channel.createCall(path, deadline, null, null, undefined);
    const cancel = (): void => call.cancelWithStatus(status.CANCELLED, "Cancelled on client");
    call.start(metadata, new OneAnswer(call, { resolve, reject, signal, cancel }));
    call.startRead();
    call.sendMessageWithContext({}, bytes);
    call.halfClose();
    signal.addEventListener("abort", cancel, { once: true });
  });
}

interface Settling {
  readonly resolve: (answer: Buffer) => void;
  readonly reject: (error: unknown) => void;
  readonly signal: AbortSignal;
  /** What listens to the signal until the end. */
  readonly cancel: () => void;
}

class OneAnswer implements InterceptingListener {
  readonly #call: Call;
  readonly #settling: Settling;
  #begun: Begun = "not";
  #answer: Buffer | undefined;
  #hasMore = false;
  #isOver = false;

  constructor(call: Call, settling: Settling) {
    this.#call = call;
    this.#settling = settling;
  }

  onReceiveMetadata(headers: Metadata): void {
    this.#begun = begunBy(headers);
  }

  onReceiveMessage(message: Buffer): void {
    if (this.#answer === undefined) {
      this.#answer = message;
      // A second one that nobody asks for would hold back the end of the call.
      this.#call.startRead();
      return;
    }
    this.#hasMore = true;
    this.#call.cancelWithStatus(status.UNIMPLEMENTED, "Too many responses received");
  }

  onReceiveStatus(ended: Parameters<InterceptingListener["onReceiveStatus"]>[0]): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { resolve, reject, signal, cancel } = this.#settling;
    signal.removeEventListener("abort", cancel);
    const answer = this.#answer;
    if (this.#hasMore) reject(notOneAnswer());
    else if (ended.code !== status.OK) reject(attemptFailed(ended, this.#begun));
    else if (answer !== undefined) resolve(answer);
    else reject(notOneAnswer());
  }
}
