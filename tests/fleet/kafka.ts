import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Admin, Consumer, type Message, stringDeserializers } from "@platformatic/kafka";
import { freePorts } from "../support/ports.ts";
import { Authority } from "../support/tls-files.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

/** Apache Kafka's own broker, from its Maven package (`tests/fleet/kafka/pom.xml`), in KRaft mode without ZooKeeper. */
const SOURCE = join(PROJECT, "tests/fleet/kafka");
const JARS = join(PROJECT, "var/fleet/kafka");
export const USER = "audit";
export const PASSWORD = "kafka-password";

/** Downloads the broker with its dependencies: 43 MB, once, with the result below `var/`. */
export async function fetchKafka(): Promise<void> {
  const maven = Bun.which("mvn");
  if (maven === null || Bun.which("java") === null) throw new Error("this suite needs Java 17 and Maven");
  if (existsSync(join(JARS, "kafka_2.13-4.2.0.jar"))) return;
  mkdirSync(JARS, { recursive: true });
  const goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", `-DoutputDirectory=${JARS}`];
  const child = Bun.spawn([maven, "-q", "-B", "-f", join(SOURCE, "pom.xml"), ...goal], { stdio: quiet });
  if ((await child.exited) !== 0) throw new Error("mvn failed");
}

const quiet: ["ignore", "ignore", "inherit"] = ["ignore", "ignore", "inherit"];

export type Arrived = Message<string, string, string, string>;

/** One broker with three listeners: without TLS, with TLS and SASL, and with TLS and client certificates. */
export class Kafka {
  readonly #folder = mkdtempSync(join(tmpdir(), "stc-kafka-"));
  readonly #ports = freePorts();
  readonly #secured = freePorts();
  readonly broker = `127.0.0.1:${this.#ports}`;
  readonly saslBroker = `localhost:${this.#secured}`;
  readonly mutualBroker = `127.0.0.1:${this.#secured + 1}`;
  /** Files for clients. */
  readonly rootCert = join(this.#folder, "ca.pem");
  readonly clientCert = join(this.#folder, "client.pem");
  readonly clientKey = join(this.#folder, "client-key.pem");
  #process: Bun.Subprocess | undefined;

  async create(): Promise<void> {
    const authority = await Authority.create("kafka");
    const [server, client] = [await authority.issue("broker"), await authority.issue("audit")];
    writeFileSync(this.rootCert, authority.pem);
    writeFileSync(this.clientCert, client.cert);
    writeFileSync(this.clientKey, client.key);
    writeFileSync(join(this.#folder, "server.pem"), `${server.key}\n${server.cert}`);
    writeFileSync(this.#settings, this.#properties());
    const user = `SCRAM-SHA-512=[name=${USER},password=${PASSWORD}]`;
    const format = [
      "format",
      "-t",
      "c3RjLWthZmthLXRlc3RzIQ",
      "-c",
      this.#settings,
      "--standalone",
      "--add-scram",
      user,
    ];
    const formatting = this.#java(["kafka.tools.StorageTool", ...format]);
    if ((await formatting.exited) !== 0) throw new Error("the broker's storage cannot be formatted");
    await this.start();
  }

  get #settings(): string {
    return join(this.#folder, "server.properties");
  }

  #properties(): string {
    const [plain, controller, sasl, mutual] = [this.#ports, this.#ports + 1, this.#secured, this.#secured + 1];
    const login = "org.apache.kafka.common.security";
    return [
      "process.roles=broker,controller",
      "node.id=1",
      `controller.quorum.bootstrap.servers=127.0.0.1:${controller}`,
      `listeners=PLAIN://127.0.0.1:${plain},CONTROLLER://127.0.0.1:${controller},SASL://127.0.0.1:${sasl},MUTUAL://127.0.0.1:${mutual}`,
      `advertised.listeners=PLAIN://127.0.0.1:${plain},SASL://localhost:${sasl},MUTUAL://127.0.0.1:${mutual}`,
      "listener.security.protocol.map=PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_SSL,MUTUAL:SSL",
      "controller.listener.names=CONTROLLER",
      "inter.broker.listener.name=PLAIN",
      "ssl.keystore.type=PEM",
      `ssl.keystore.location=${join(this.#folder, "server.pem")}`,
      "ssl.truststore.type=PEM",
      `ssl.truststore.location=${this.rootCert}`,
      "listener.name.mutual.ssl.client.auth=required",
      "listener.name.sasl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512",
      `listener.name.sasl.scram-sha-512.sasl.jaas.config=${login}.scram.ScramLoginModule required;`,
      `listener.name.sasl.plain.sasl.jaas.config=${login}.plain.PlainLoginModule required user_${USER}="${PASSWORD}";`,
      `log.dirs=${join(this.#folder, "data")}`,
      "auto.create.topics.enable=false",
      "offsets.topic.num.partitions=1",
      "offsets.topic.replication.factor=1",
      "group.initial.rebalance.delay.ms=0",
      "",
    ].join("\n");
  }

  #java(command: readonly string[]): Bun.Subprocess {
    const options = ["-Xmx384m", "-XX:+UseSerialGC", "-cp", `${JARS}/*`];
    return Bun.spawn(["java", ...options, ...command], { stdio: ["ignore", "ignore", "ignore"] });
  }

  async start(): Promise<void> {
    this.#process = this.#java(["kafka.Kafka", this.#settings]);
    await until("the broker", () => this.#admin((admin) => admin.listTopics()).catch(() => undefined));
  }

  /** Ends the broker at once, as a crash does. */
  async kill(): Promise<void> {
    this.#process?.kill("SIGKILL");
    await this.#process?.exited;
  }

  async end(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async createTopic(topic: string, partitions: number, settings: Readonly<Record<string, string>> = {}): Promise<void> {
    const configs = Object.entries(settings).map(([name, value]) => ({ name, value }));
    await this.#admin((admin) => admin.createTopics({ topics: [topic], partitions, replicas: 1, configs }));
  }

  async #admin<T>(use: (admin: Admin) => Promise<T>): Promise<T> {
    const admin = new Admin({ clientId: "tests", bootstrapBrokers: [this.broker], retries: 0 });
    try {
      return await use(admin);
    } finally {
      await admin.close();
    }
  }

  /** Reads all messages of a topic from its beginning, until those that have come so far are enough. */
  async read(topic: string, isEnough: (messages: readonly Arrived[]) => boolean): Promise<readonly Arrived[]> {
    const consumer = new Consumer<string, string, string, string>({
      groupId: crypto.randomUUID(),
      clientId: "tests",
      bootstrapBrokers: [this.broker],
      deserializers: stringDeserializers,
    });
    const found: Arrived[] = [];
    try {
      const stream = await consumer.consume({ topics: [topic], mode: "earliest", autocommit: false });
      for await (const message of stream) {
        found.push(message);
        if (isEnough(found)) break;
      }
    } finally {
      await consumer.close(true);
    }
    return found;
  }
}
