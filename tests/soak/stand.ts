import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { DEVELOPMENT_SERVER_NAME, developmentCertificates } from "../../src/cli/development/certificates.ts";
import { journalEntries } from "../support/audit-files.ts";
import { type JwksServer, publish, startJwksServer } from "../support/jwks-server.ts";
import { processorMsOf } from "../support/processor-time.ts";
import { manifest } from "../support/reload-service.ts";
import { environmentOf, STC } from "../support/stc.ts";
import { issueToken, makeSigningKey, type SigningKey } from "../support/tokens.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

const ISSUER = "https://idp.soak";
const OPERATORS_ISSUER = "https://people.soak";
const TOKEN_SECONDS = 600;
const LOOK_MS = 100;
/** A service that saw an unknown key may have asked for the keys just before, and then waits this long. */
const KEYS_MS_MAX = 35_000;
/** The longest lifetime of a token, in seconds; each configuration has another one above it. */
const LIFETIME_SECONDS = 3_600;
/** For a reload to be in the journal. */
const RELOAD_MS_MAX = 60_000;

/** A service as an operator runs it: a process with a configuration file, keys from a key server, a gRPC service beside it. */
export class Stand {
  readonly folder: string;
  readonly #jwks: JwksServer;
  readonly #operators: SigningKey = makeSigningKey("ES256", "operators");
  #keys: readonly SigningKey[] = [];
  #generation = 0;
  #writings = 0;
  #target: Bun.Subprocess | undefined;
  #targetPort = 0;
  #service: Bun.Subprocess | undefined;
  url = "";

  readonly #durability: string;

  private constructor(folder: string, jwks: JwksServer, durability: string) {
    this.folder = folder;
    this.#jwks = jwks;
    this.#durability = durability;
  }

  /** `durability`: the setting of the service's audit. */
  static async make(durability: string): Promise<Stand> {
    const stand = new Stand(mkdtempSync(join(tmpdir(), "stc-soak-")), await startJwksServer(), durability);
    mkdirSync(join(stand.folder, "certs"));
    await stand.startTarget();
    stand.#publishNewKey();
    stand.writeManifest();
    stand.configure();
    return stand;
  }

  get pid(): number {
    return this.#service?.pid ?? 0;
  }

  get auditDir(): string {
    return join(this.folder, "audit");
  }

  /** Another configuration each time, which a running service takes over unless `changes` keep it from that. */
  configure(changes: Readonly<Record<string, unknown>> = {}): void {
    this.#writings += 1;
    this.writeConfiguration(stringify({ ...this.#configuration(), ...changes }));
  }

  /** As an editor does: beside the old one, then in its place. */
  writeConfiguration(text: string): void {
    const path = join(this.folder, "stc.yaml");
    writeFileSync(`${path}.new`, text);
    renameSync(`${path}.new`, path);
  }

  /** Another manifest each time, with what it imports; `before` stands above it. */
  writeManifest(before = ""): void {
    this.#writings += 1;
    const words = `export const words = ${JSON.stringify(`words ${this.#writings}`)};\n`;
    const importing = `import { words } from "./words.ts";\n${before}`;
    const text = manifest({
      ...{ name: "soak_words", permission: "bench:run" },
      ...{ before: importing, body: "return { said: words };" },
    });
    mkdirSync(join(this.folder, "tools"), { recursive: true });
    writeFileSync(join(this.folder, "tools/words.ts"), words);
    writeFileSync(join(this.folder, "tools/soak-words.ts"), text);
  }

  /** Reloads in the journal since the beginning. */
  reloads(became: "changed" | "refused"): number {
    return journalEntries(this.auditDir).filter(({ type }) => type === `configuration.${became}`).length;
  }

  /** Does what a reload is to follow from; whether one did, with this end. */
  async reloadedBy(act: () => void, became: "changed" | "refused"): Promise<boolean> {
    const before = this.reloads(became);
    act();
    for (let waitedMs = 0; waitedMs < RELOAD_MS_MAX; waitedMs += LOOK_MS) {
      if (this.reloads(became) > before) return true;
      await Bun.sleep(LOOK_MS);
    }
    return false;
  }

  /** The server of the keys answers nothing of use while this runs. */
  async withoutKeys<T>(act: () => Promise<T>): Promise<T> {
    this.#jwks.answer = (response) => response.writeHead(503).end();
    try {
      return await act();
    } finally {
      this.#jwks.answer = publish(...this.#keys);
    }
  }

  #configuration(): Readonly<Record<string, unknown>> {
    const certificate = (name: string): string => join(this.folder, "certs/tls", name);
    return {
      server: { port: 0, drainTimeoutMs: 10_000 },
      tools: [
        join(PROJECT, "tests/bench/tools/echo.ts"),
        join(PROJECT, "tools/customer-data"),
        join(PROJECT, "tools/platform/git-log.ts"),
        "./tools",
      ],
      reload: { trigger: "watch" },
      audit: { dir: "audit", durability: this.#durability },
      jwt: {
        issuers: [
          {
            ...{ issuer: ISSUER, algorithms: ["ES256"], jwksUri: this.#jwks.url },
            maxLifetimeSeconds: LIFETIME_SECONDS + this.#writings,
          },
          {
            ...{ issuer: OPERATORS_ISSUER, audience: "safe-tool-call-operators", operators: true },
            ...{ algorithms: ["ES256"], jwks: { keys: [this.#operators.jwk] } },
          },
        ],
      },
      systems: {
        "customer-master-service": {
          endpoint: `127.0.0.1:${this.#targetPort}`,
          proto: join(PROJECT, "proto"),
          tls: {
            rootCert: certificate("ca.pem"),
            clientCert: certificate("client.pem"),
            clientKey: certificate("client-key.pem"),
            serverName: DEVELOPMENT_SERVER_NAME,
          },
        },
        git: { repositories: { self: PROJECT } },
      },
      commands: { allowed: ["git", "echo"] },
    };
  }

  async startTarget(): Promise<void> {
    const certs = join(this.folder, "certs");
    const child = Bun.spawn([process.execPath, join(import.meta.dir, "target.ts"), certs, String(this.#targetPort)], {
      stdout: "pipe",
      stderr: "ignore",
    });
    this.#target = child;
    const { value } = await child.stdout.getReader().read();
    this.#targetPort = Number(new TextDecoder().decode(value));
  }

  async killTarget(): Promise<void> {
    this.#target?.kill("SIGKILL");
    await this.#target?.exited;
  }

  /** A new authority with new certificates for both sides; the gRPC service comes back with its own. */
  async rotateCertificates(): Promise<void> {
    await this.killTarget();
    rmSync(join(this.folder, "certs"), { recursive: true });
    mkdirSync(join(this.folder, "certs"));
    await developmentCertificates(join(this.folder, "certs"), Date.now());
    await this.startTarget();
  }

  /**
   * From now on tokens are signed with a new key; the one before stays published until the next rotation. Resolves when
   * the service has asked for the keys again.
   */
  async rotateKeys(): Promise<void> {
    this.#publishNewKey();
    const { requests } = this.#jwks;
    for (let waitedMs = 0; this.#jwks.requests === requests && waitedMs < KEYS_MS_MAX; waitedMs += LOOK_MS) {
      await Bun.sleep(LOOK_MS);
    }
  }

  #publishNewKey(): void {
    this.#generation += 1;
    this.#keys = [makeSigningKey("ES256", `soak-${this.#generation}`), ...this.#keys].slice(0, 2);
    this.#jwks.answer = publish(...this.#keys);
  }

  token(sub: string, permissions: readonly string[]): Promise<string> {
    const [key] = this.#keys;
    if (key === undefined) throw new Error("no key yet");
    const now = Math.floor(Date.now() / 1000);
    return issueToken(key, {
      ...{ iss: ISSUER, aud: "safe-tool-call", sub, permissions },
      ...{ iat: now, exp: now + TOKEN_SECONDS },
    });
  }

  /** Starts the service and waits until it is ready. Returns the processor time that this took, in milliseconds. */
  async startService(): Promise<number> {
    const log = join(this.folder, "service.log");
    writeFileSync(log, "");
    this.#service = Bun.spawn([...STC, "serve"], {
      cwd: this.folder,
      env: environmentOf({ STC_CONFIG: join(this.folder, "stc.yaml") }),
      stdout: Bun.file(log),
      stderr: Bun.file(join(this.folder, "service.err")),
    });
    this.url = await until("the service's address", () => /"url":"([^"]+)"/.exec(readFileSync(log, "utf8"))?.[1]);
    await until("readiness", async () => {
      const answer = await fetch(`${this.url}/readyz`).catch(() => undefined);
      return answer?.ok || undefined;
    });
    return processorMsOf(this.pid);
  }

  /** Sends the signal; the exit code and the milliseconds until it. */
  async endService(signal: "SIGTERM" | "SIGKILL"): Promise<{ readonly code: number | null; readonly ms: number }> {
    const began = performance.now();
    this.#service?.kill(signal);
    await this.#service?.exited;
    return { code: this.#service?.exitCode ?? null, ms: performance.now() - began };
  }

  errors(): string {
    return readFileSync(join(this.folder, "service.err"), "utf8");
  }

  async remove(): Promise<void> {
    await this.killTarget();
    await this.endService("SIGKILL");
    this.#jwks.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
