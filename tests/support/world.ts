import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DEVELOPMENT_SERVER_NAME, makeCertificates } from "../../src/cli/development/certificates.ts";
import { type CustomerMaster, startCustomerMaster } from "../../src/cli/development/customer-master.ts";
import { TestRepository } from "../tools/platform/repositories.ts";
import { hasGit } from "./git-tests.ts";
import { LiveIssuers } from "./live-tokens.ts";

export const PROJECT = join(import.meta.dir, "../..");

const YEAR_2000 = new Date(946_684_800_000);
const YEAR_2100 = new Date(4_102_444_800_000);

/** Everything that stands around a service: issuers, the stand-in gRPC service, a git repository, a place for files. */
export interface World {
  readonly folder: string;
  readonly issuers: LiveIssuers;
  /** Missing on a machine without git. */
  readonly repository: TestRepository | undefined;
  /** `systems` and `commands` of a configuration that reaches all of it. */
  readonly targets: { readonly systems: Record<string, unknown>; readonly commands: Record<string, unknown> };
  close(): Promise<void>;
}

export async function openWorld(): Promise<World> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-world-")));
  const { master, tls } = await startMaster(join(folder, "tls"));
  const directory = join(folder, "repository");
  mkdirSync(directory);
  const repository = hasGit ? new TestRepository(directory) : undefined;
  if (repository !== undefined) fillRepository(repository);
  return {
    folder,
    issuers: new LiveIssuers(),
    repository,
    targets: {
      systems: {
        "customer-master-service": { endpoint: `127.0.0.1:${master.port}`, proto: join(PROJECT, "proto"), tls },
        git: { repositories: hasGit ? { self: directory } : {} },
      },
      commands: { allowed: hasGit ? ["git"] : [] },
    },
    async close() {
      await master.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function startMaster(folder: string): Promise<{ master: CustomerMaster; tls: Record<string, string> }> {
  const { rootCert, server, client } = await makeCertificates({ notBefore: YEAR_2000, notAfter: YEAR_2100 });
  const certificates = {
    rootCert: Buffer.from(rootCert),
    server: { cert: Buffer.from(server.cert), key: Buffer.from(server.key) },
  };
  const tls = {
    rootCert: join(folder, "ca.pem"),
    clientCert: join(folder, "client.pem"),
    clientKey: join(folder, "client-key.pem"),
  };
  mkdirSync(folder, { recursive: true });
  writeFileSync(tls.rootCert, rootCert);
  writeFileSync(tls.clientCert, client.cert);
  writeFileSync(tls.clientKey, client.key, { mode: 0o600 });
  const master = await startCustomerMaster({ certificates, port: 0 });
  return { master, tls: { ...tls, serverName: DEVELOPMENT_SERVER_NAME } };
}

/** `main`, and `feature/x` with one changed line; `big` holds more than an answer may. */
function fillRepository(repository: TestRepository): void {
  repository.commit("first", { "greeting.txt": "hello\n" });
  repository.git("checkout", "--quiet", "-b", "feature/x");
  repository.commit("second", { "greeting.txt": "hello world\n" });
  repository.git("checkout", "--quiet", "-b", "big");
  repository.commit("third", { "big.txt": `${"0123456789abcdef".repeat(64)}\n`.repeat(1_600) });
  repository.git("checkout", "--quiet", "main");
}
