import { once } from "node:events";
import type { Message } from "@platformatic/kafka";
import { clientOptions, ignoreRepeatedErrors, type KafkaFiles, type KafkaSettings, kafkaReason } from "./kafka.ts";
import { type Received, readLine, readPlace, readReceived } from "./received.ts";

/** Messages of a topic, in the order of each partition. */
export interface KafkaBatch {
  readonly messages: readonly KafkaMessage[];
  /** Says that the messages need not be read again. @throws {Error} when the brokers do not accept it */
  readonly commit: () => Promise<void>;
}

interface KafkaMessage {
  /** `topic-partition:offset` */
  readonly name: string;
  readonly received: Received | undefined;
}

interface SourceOptions {
  readonly settings: KafkaSettings;
  readonly files: KafkaFiles;
  /** Consumer group, which keeps the position. */
  readonly group: string;
  readonly signal: AbortSignal;
}

const MESSAGES_MAX = 500;
/** About a minute. */
const RETRIES = 60;
/** After this time without a heartbeat, the group gives the partitions of a member that was killed to another. */
const SESSION_MS = 20_000;
const RETRY_MS = 1_000;

type Texts = Message<string, string, string, string>;

/** Yields what exporters or a collector have sent to the topic, until the signal fires. @throws {Error} with what a broker said */
export async function* readKafka({ settings, files, group, signal }: SourceOptions): AsyncGenerator<KafkaBatch, void> {
  const { Consumer, stringDeserializers } = await import("@platformatic/kafka");
  const consumer = new Consumer<string, string, string, string>({
    ...clientOptions(settings, files),
    groupId: group,
    deserializers: stringDeserializers,
    autocommit: false,
    sessionTimeout: SESSION_MS,
    retries: RETRIES,
    retryDelay: RETRY_MS,
  });
  ignoreRepeatedErrors(consumer);
  try {
    const stream = await consumer.consume({ topics: [settings.topic], mode: "committed", fallbackMode: "earliest" });
    // An error between two waits is seen by the next: the stream is destroyed then.
    stream.on("error", () => {});
    while (!signal.aborted) {
      const read: Texts[] = [];
      for (let next = stream.read(); next !== null; next = stream.read()) {
        read.push(next);
        if (read.length === MESSAGES_MAX) break;
      }
      if (read.length > 0) yield batchOf(read);
      else if (stream.destroyed) throw stream.errored ?? new Error("the connection was closed");
      else await once(stream, "readable", { signal });
    }
  } catch (error) {
    if (!signal.aborted) throw new Error(kafkaReason(error), { cause: error });
  } finally {
    await consumer.close(true);
  }
}

function batchOf(read: readonly Texts[]): KafkaBatch {
  const last = new Map(read.map((message) => [message.partition, message]));
  return {
    messages: read.map((message) => ({
      name: `${message.topic}-${message.partition}:${message.offset}`,
      received: receivedIn(message),
    })),
    async commit() {
      for (const message of last.values()) await message.commit();
    },
  };
}

/** Reads a message of an exporter, or one of a collector that holds OTLP logs as JSON. */
function receivedIn({ headers, value }: Texts): Received | undefined {
  const [stream, log, place] = ["stream", "log", "place"].map((name) => headers.get(name));
  if (stream === undefined || place === undefined) return typeof value === "string" ? readReceived(value) : undefined;
  const line = readLine({ stream, log, ...readPlace(place), line: value });
  return { lines: line === undefined ? [] : [line], faulty: line === undefined ? 1 : 0, others: 0 };
}
