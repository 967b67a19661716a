import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SignJWT } from "jose";
import { parse } from "yaml";
import { type VerifyReport, verifyLog } from "../../src/audit/verify/verify.ts";
import { DEVELOPMENT_SERVER_NAME, makeCertificates } from "../../src/cli/development/certificates.ts";
import { type CustomerMaster, startCustomerMaster } from "../../src/cli/development/customer-master.ts";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { readConfig } from "../support/build.ts";
import { LiveIssuers, OPERATORS_ISSUER } from "../support/live-tokens.ts";
import { RunningStc } from "../support/stc.ts";
import { makeSigningKey } from "../support/tokens.ts";
import { type Document, ofKind, PROJECT } from "./documents.ts";
import { configurationOf, rendered, renderedAgent } from "./helm.ts";

const YEAR_2000 = new Date(946_684_800_000);
const YEAR_2100 = new Date(4_102_444_800_000);
const CLUSTER_ISSUER = "https://kubernetes.default.svc.cluster.local";

/** What of the file is looked into here; the real reader looks at all of it. */
interface Written {
  readonly server: { readonly console?: object };
  readonly audit: object;
  readonly jwt: { readonly issuers: readonly Readonly<Record<string, unknown>>[] };
  readonly systems: { readonly "customer-master-service": { readonly tls: object } };
}

/** The charts that are run: the service in pods of its own, and beside an agent. */
export const RUN = ["standalone", "sidecar"] as const;
type Base = (typeof RUN)[number];

/** A folder that stands for a pod's file system, with what its volumes hold, and the service as the chart configures it. */
export class Pod {
  readonly #root = realpathSync(mkdtempSync(join(tmpdir(), "stc-pod-")));
  readonly #cluster = makeSigningKey("RS256", "cluster-1");
  readonly #people = new LiveIssuers();
  readonly #auditKey = generateKeyPairSync("ed25519");
  #master: CustomerMaster | undefined;
  #logs: Bun.Server<undefined> | undefined;
  readonly running: RunningService[] = [];
  readonly #programs: RunningStc[] = [];

  async start(base: Base): Promise<RunningService> {
    await this.#prepare(base);
    const read = { folder: join(this.#root, "etc/stc"), environment: {}, origin: "stc.yaml" };
    const service = await startService(readConfig({ ...this.#configuration(), log: { level: "silent" } }, read));
    this.running.push(service);
    return service;
  }

  /** Starts the service as a program of its own, and returns it with its URL. */
  async startProcess(base: Base): Promise<{ readonly program: RunningStc; readonly url: string }> {
    await this.#prepare(base);
    const file = join(this.#root, "etc/stc/run.yaml");
    writeFileSync(file, JSON.stringify(this.#configuration()));
    const program = new RunningStc(["serve", "--config", file]);
    this.#programs.push(program);
    const out = await program.printed(/"url":"http:[^"]+"/);
    const [, url = ""] = /"url":"(http:[^"]+)"/.exec(out) ?? [];
    return { program, url };
  }

  async #prepare(base: Base): Promise<void> {
    const documents = base === "sidecar" ? await renderedAgent() : await rendered({ case: base });
    const certificates = await makeCertificates({ notBefore: YEAR_2000, notAfter: YEAR_2100 });
    const { rootCert, server, client } = certificates;
    this.#mount("etc/stc-client-tls", { "ca.crt": rootCert, "tls.crt": client.cert, "tls.key": client.key });
    this.#mount("etc/stc-console-tls", { "tls.crt": server.cert, "tls.key": server.key });
    this.#mount("etc/stc-files/cluster-jwks", { "jwks.json": JSON.stringify({ keys: [this.#cluster.jwk] }) });
    this.#mount("etc/stc-audit-key", {
      "private.pem": this.#auditKey.privateKey.export({ type: "pkcs8", format: "pem" }),
    });
    this.#mount("etc/stc-tools", toolsOf(documents));
    this.#mount("etc/stc", { "stc.yaml": configurationOf(documents).text });
    mkdirSync(join(this.#root, "var/lib/stc"), { recursive: true });
    mkdirSync(join(this.#root, "app"));
    for (const folder of ["tools", "proto"]) symlinkSync(join(PROJECT, folder), join(this.#root, "app", folder));
    const master = { cert: Buffer.from(server.cert), key: Buffer.from(server.key) };
    this.#master = await startCustomerMaster({
      certificates: { rootCert: Buffer.from(rootCert), server: master },
      port: 0,
    });
    this.#logs = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => new Response(null, { status: 204 }) });
  }

  /** As the kubelet projects it: no `typ`, no permissions, an audience in a list. */
  agentToken(account: string, claims: Readonly<Record<string, unknown>> = {}): Promise<string> {
    const bound = {
      serviceaccount: { name: account, uid: "6a0d5f7e-0001" },
      pod: { name: "p-0", uid: "6a0d5f7e-0002" },
    };
    return new SignJWT({ "kubernetes.io": { namespace: "agents", ...bound }, ...claims })
      .setProtectedHeader({ alg: "RS256", kid: this.#cluster.kid })
      .setIssuer(CLUSTER_ISSUER)
      .setSubject(`system:serviceaccount:agents:${account}`)
      .setAudience(["safe-tool-call"])
      .setJti("0a1b2c3d")
      .setIssuedAt("1 second ago")
      .setNotBefore("1 second ago")
      .setExpirationTime("3599 seconds")
      .sign(this.#cluster.privateKey);
  }

  /** What somebody with a copy of the log and the public key finds. */
  verifiedAudit(): VerifyReport {
    return verifyLog({ dir: join(this.#root, "var/lib/stc/audit-logs"), keys: [this.#auditKey.publicKey] });
  }

  operatorToken(permissions: readonly string[]): Promise<string> {
    return this.#people.token({ kind: "operator", sub: "prometheus", permissions });
  }

  async close(): Promise<void> {
    for (const service of this.running) await service.drain();
    for (const program of this.#programs) await program.end("SIGKILL");
    await this.#master?.close();
    await this.#logs?.stop(true);
    rmSync(this.#root, { recursive: true, force: true });
  }

  /** The file as it is written, but for the machine: paths below our folder, free ports, services that are here. */
  #configuration(): object {
    const text = readFileSync(join(this.#root, "etc/stc/stc.yaml"), "utf8").replaceAll(
      /\/(?=etc\/stc|var\/lib\/stc|app\/)/g,
      `${this.#root}/`,
    );
    const written = parse(text) as Written;
    const system = written.systems["customer-master-service"];
    const [agents, people] = written.jwt.issuers;
    const { jwksUri: _, ...operators } = { ...people };
    const { console } = written.server;
    const listening = { host: "127.0.0.1", port: 0 };
    return {
      ...written,
      server: {
        ...{ ...written.server, ...listening, operator: listening, shutdownDelayMs: 0 },
        ...(console !== undefined && { console: { ...console, ...listening } }),
      },
      audit: { ...written.audit, export: [{ type: "loki", url: `http://127.0.0.1:${this.#logs?.port}` }] },
      jwt: {
        issuers: [agents, { ...operators, issuer: OPERATORS_ISSUER, jwks: { keys: [this.#people.operators.jwk] } }],
      },
      systems: {
        "customer-master-service": {
          ...system,
          endpoint: `127.0.0.1:${this.#master?.port}`,
          tls: { ...system.tls, serverName: DEVELOPMENT_SERVER_NAME },
        },
      },
    };
  }

  /** As the kubelet does it: files are links to links, so that all of them change at once. */
  #mount(folder: string, files: Readonly<Record<string, string | Buffer>>): void {
    const place = join(this.#root, folder);
    mkdirSync(join(place, "..2026_11_22"), { recursive: true });
    symlinkSync("..2026_11_22", join(place, "..data"));
    for (const [name, text] of Object.entries(files)) {
      writeFileSync(join(place, "..2026_11_22", name), text);
      symlinkSync(`..data/${name}`, join(place, name));
    }
  }
}

function toolsOf(documents: readonly Document[]): Readonly<Record<string, string>> {
  return ofKind(documents, "ConfigMap").find(({ metadata }) => metadata.name.endsWith("-tools"))?.data ?? {};
}
