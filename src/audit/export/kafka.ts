import { readFileSync, statSync } from "node:fs";
import type { Base, MessageToProduce, Producer } from "@platformatic/kafka";
import { z } from "zod";
import { hasPort, isLoopback } from "../../core/network.ts";
import { endedWithin, unlessAborted } from "../../core/time-limits.ts";
import { readUserAndPassword } from "../../core/user-and-password.ts";
import { clientCertificate, plaintext, text } from "../../egress/settings.ts";
import { keyOf } from "../store/columns.ts";
import type { ExportLine } from "./batch.ts";
import type { AuditExporter, Receiver, ReceiverOutcome } from "./receiver.ts";

/** Apache Kafka: one message for each line, in the order of its log. */

const BROKERS_MAX = 32;
const BROKER = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+):(\d{1,5})$/i;

const CLIENT_ID = "safe-tool-call";
const COMPRESSION = "gzip";

/** Without defaults, which would be added to the entries of other types. */
const kafkaSettings = z
  .strictObject({
    brokers: z
      .array(
        z.string().refine((broker) => BROKER.test(broker) && hasPort(broker), "must be host:port, without a scheme"),
      )
      .min(1)
      .max(BROKERS_MAX)
      .describe("For `kafka`: `host:port` of the brokers that are asked first. They name the others of the cluster."),
    topic: z
      .string()
      .regex(/^(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}$/, "must be the name of a topic")
      .describe("For `kafka`: an existing topic. Its partitions keep the order of each log and stream."),
    clientId: z
      .string()
      .regex(/^[a-zA-Z0-9._-]{1,128}$/, "must consist of letters, digits, dots, dashes and underscores")
      .optional()
      .describe(
        `For \`kafka\`: name of this client in the brokers' logs, metrics and quotas. Default: \`${CLIENT_ID}\`.`,
      ),
    compression: z
      .enum(["none", "gzip", "zstd"])
      .optional()
      .describe(`For \`kafka\`: how requests are compressed. Default: \`${COMPRESSION}\`.`),
    tls: z
      .strictObject({
        rootCert: text
          .optional()
          .describe("File with the trusted root certificates, PEM. Default: those of the platform."),
        ...clientCertificate,
      })
      .optional()
      .describe("For `kafka`: certificates. The brokers' certificates are verified in any case."),
    sasl: z
      .strictObject({
        mechanism: z
          .enum(["plain", "scram-sha-256", "scram-sha-512"])
          .describe("For `kafka`: how the service authenticates itself."),
        basicFile: text.describe("File with `user:password`. It is read again after a failure."),
      })
      .optional()
      .describe("For `kafka`: credentials of the service."),
    plaintext: plaintext.describe("For `kafka`: set to `true` for brokers without TLS."),
  })
  .superRefine(({ brokers, tls, sasl, plaintext: isPlain }, context) => {
    const problem = (setting: string, message: string) =>
      context.addIssue({ code: "custom", path: [setting], message });
    if (isPlain === true && tls !== undefined) problem("plaintext", "must be left out where tls is set");
    if (isPlain === true && sasl !== undefined && !brokers.every((broker) => isLoopback(hostOf(broker)))) {
      problem("plaintext", "must be left out where sasl is set: credentials without TLS can be read on the way");
    }
    if ((tls?.clientCert === undefined) !== (tls?.clientKey === undefined)) {
      problem("tls", "needs clientCert and clientKey, or neither");
    }
  });

export type KafkaSettings = z.output<typeof kafkaSettings>;
type Texts = Producer<string, string, string, string>;
type Options = ConstructorParameters<typeof Producer<string, string, string, string>>[0];

function hostOf(broker: string): string {
  return broker.slice(0, broker.lastIndexOf(":"));
}

/** Limits in milliseconds: for one delivery, for one connection, and for the answer to one request. */
const DELIVERY_MS = 30_000;
const CONNECT_MS = 5_000;
const REQUEST_MS = 15_000;
const CLOSE_MS = 2_000;
/** The exporter tries again, too, and says why. With fewer, the library would try without end. */
const RETRIES = 2;
const RETRY_MS = 250;

/** Apache Kafka. */
export const kafkaExporter: AuditExporter<"kafka", typeof kafkaSettings, Receiver> = {
  type: "kafka",
  settings: kafkaSettings,
  open(settings, { path, problem }) {
    const read = () => filesOf(settings, path, problem);
    return read() && new KafkaReceiver(settings, read);
  },
};

/** Certificates and credentials as they are in their files. */
export type KafkaFiles = Pick<Options, "tls" | "sasl">;

/** Reads the files that the settings name. Returns undefined after a problem with one of them. */
export function filesOf(
  { tls, sasl, plaintext: isPlain }: KafkaSettings,
  pathOf: (path: string) => string,
  problem: (setting: string, message: string) => void,
): KafkaFiles | undefined {
  let isSound = true;
  const read = <T>(setting: string, path: string | undefined, parse: (bytes: Buffer) => T): T | undefined => {
    if (path === undefined) return undefined;
    try {
      return parse(readFile(pathOf(path)));
    } catch (error) {
      const isSaid = error instanceof Error && !("syscall" in error);
      problem(setting, `${path}: ${isSaid ? error.message : "cannot be read"}`);
      isSound = false;
      return undefined;
    }
  };
  const plain = (bytes: Buffer): Buffer => bytes;
  const [ca, cert, key] = (["rootCert", "clientCert", "clientKey"] as const).map((name) =>
    read(`tls.${name}`, tls?.[name], plain),
  );
  const credentials = read("sasl.basicFile", sasl?.basicFile, readUserAndPassword);
  if (!isSound) return undefined;
  return {
    ...(isPlain !== true && {
      tls: { rejectUnauthorized: true, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) },
    }),
    ...(sasl && { sasl: { mechanism: MECHANISMS[sasl.mechanism], ...credentials } }),
  };
}

/** @throws {Error} */
function readFile(path: string): Buffer {
  // Reading a pipe would block the whole process.
  if (!statSync(path).isFile()) throw new Error("is not a file");
  return readFileSync(path);
}

const MECHANISMS = { plain: "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512" } as const;

/** Errors of a broker that are about the lines: sending them again cannot help. */
const FINAL = ["MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP"] as const;

/**
 * Sends with one idempotent producer, which a failure replaces: the next attempt reads the files again, and nothing of the former
 * attempt is sent later, between other lines.
 */
class KafkaReceiver implements Receiver {
  readonly #settings: KafkaSettings;
  readonly #read: () => KafkaFiles | undefined;
  #opened: Promise<Texts> | undefined;

  constructor(settings: KafkaSettings, read: () => KafkaFiles | undefined) {
    this.#settings = settings;
    this.#read = read;
  }

  async deliver(lines: readonly ExportLine[], signal: AbortSignal): Promise<ReceiverOutcome> {
    const { topic } = this.#settings;
    const limited = AbortSignal.any([signal, AbortSignal.timeout(DELIVERY_MS)]);
    this.#opened ??= this.#open();
    const opened = this.#opened;
    try {
      const sending = opened.then(async (producer) => {
        if (lines.length === 0) await producer.metadata({ topics: [topic] });
        else await producer.send({ messages: lines.map((line) => messageOf(line, topic)) });
      });
      await unlessAborted(sending, limited, () => new Error(signal.aborted ? "aborted" : "timeout"));
      return { kind: "taken", rejected: 0 };
    } catch (error) {
      const causes = [...causesOf(error)];
      const final = FINAL.find((id) => causes.some((cause) => cause.apiId === id));
      if (final !== undefined) return { kind: "refused", reason: final };
      if (this.#opened === opened) this.#opened = undefined;
      await closed(opened);
      return { kind: "later", reason: kafkaReason(error), retryAfterMs: undefined };
    }
  }

  async close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    if (opened !== undefined) await closed(opened);
  }

  async #open(): Promise<Texts> {
    const { Producer, stringSerializers } = await import("@platformatic/kafka");
    const files = this.#read();
    if (files === undefined) throw new Error("a file with certificates or credentials cannot be read");
    const { compression = COMPRESSION } = this.#settings;
    const producer: Texts = new Producer({
      ...clientOptions(this.#settings, files),
      serializers: stringSerializers,
      idempotent: true,
      autocreateTopics: false,
      compression,
      retries: RETRIES,
      retryDelay: RETRY_MS,
    });
    ignoreRepeatedErrors(producer);
    return producer;
  }
}

/** Options of every client. */
export function clientOptions({ brokers, clientId = CLIENT_ID }: KafkaSettings, files: KafkaFiles) {
  return {
    clientId,
    bootstrapBrokers: [...brokers],
    connectTimeout: CONNECT_MS,
    requestTimeout: REQUEST_MS,
    ...files,
  };
}

/** A connection that fails twice would otherwise end the process: the library listens once. */
export function ignoreRepeatedErrors(client: Base): void {
  client.on("client:broker:connect", ({ connection }) => connection.on("error", () => {}));
}

async function closed(opened: Promise<Texts>): Promise<void> {
  await endedWithin(
    opened.then((producer) => producer.close(true)),
    CLOSE_MS,
  );
}

/**
 * Returns a line as a message. The headers are the line's key in a store, and where it is in its file, so that a consumer needs to
 * parse nothing. The brokers keep a message from the time when they get it: a line that is sent late is not deleted at once.
 */
function messageOf(exported: ExportLine, topic: string): MessageToProduce<string, string, string, string> {
  const { stream, line, day, offset, log = "", seq, covers } = exported;
  // A note has no link: its `seq` is the number of lines that it covers.
  const own = stream === "checkpoints" ? { seq: seq ?? "", covers: covers ?? "" } : {};
  const headers = Object.entries({ ...keyOf(exported), ...own, place: `${day}:${offset}` });
  return {
    topic,
    key: `${log} ${covers ?? stream}`,
    value: line,
    headers: Object.fromEntries(headers.map(([name, value]) => [name, String(value)])),
  };
}

interface Cause {
  readonly message: string;
  readonly code: string | undefined;
  /** Error that a broker has answered. */
  readonly apiId: string | undefined;
}

/** Yields the causes of an error, each before the error that it led to. */
function* causesOf(error: unknown): Generator<Cause, void> {
  if (!(error instanceof Error)) return;
  yield* causesOf(error.cause);
  if (error instanceof AggregateError) for (const each of error.errors) yield* causesOf(each);
  const { code, apiId } = error as { readonly code?: unknown; readonly apiId?: unknown };
  yield {
    message: error.message,
    code: typeof code === "string" ? code : undefined,
    apiId: typeof apiId === "string" ? apiId : undefined,
  };
}

const LIBRARY = /^PLT_KFK_/;

/** Returns what a broker answered, or what is wrong with the connection. */
export function kafkaReason(error: unknown): string {
  const causes = [...causesOf(error)];
  const answered = causes.find(({ apiId }) => apiId !== undefined);
  if (answered?.apiId !== undefined) return answered.apiId;
  const [first] = causes;
  if (first === undefined) return "unknown error";
  return first.code === undefined || LIBRARY.test(first.code) ? first.message : first.code;
}
