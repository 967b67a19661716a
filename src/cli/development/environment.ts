import { existsSync, lstatSync, mkdirSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { StartupError } from "../../core/errors.ts";
import { isLoopback } from "../../core/network.ts";
import { MODULES } from "../../modules.ts";
import type { Environment } from "../../runtime/config/config.ts";
import { readConfig } from "../../runtime/config/reading.ts";
import { DEVELOPMENT_SERVER_NAME, developmentCertificates } from "./certificates.ts";
import { startCustomerMaster } from "./customer-master.ts";
import { developmentKeys, developmentSigningKey } from "./keys.ts";
import { developmentShop } from "./shop.ts";

export const PROJECT = dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url)))));

/** Folder of the development environment's keys and certificates; ignored by git. */
export const DEVELOPMENT_DIRECTORY = join(PROJECT, "certs", "dev");

const GIT_TOOLS = ["diff-branches", "log", "show-file"].map((name) => join(PROJECT, `tools/platform/git-${name}.ts`));

const PORT = 8787;

/**
 * Returns a development environment that needs no set-up: missing keys and certificates are created, this repository is the git
 * repository `self`, a stand-in for the customer master service answers over mutual TLS, and `shop` is a small database. Loopback only.
 *
 * @throws {StartupError} when the environment variables select production features
 */
export async function developmentEnvironment(environment: Environment, now: number) {
  if (environment["STC_CONFIG"]) {
    throw new StartupError(["STC_CONFIG is set: development (--dev) and production configuration exclude each other"]);
  }
  const host = environment["STC_HOST"] ?? "127.0.0.1";
  if (!isLoopback(host)) throw new StartupError([`STC_HOST: ${host}: development listens on loopback only`]);
  const keys = await developmentKeys(DEVELOPMENT_DIRECTORY);
  const certificates = await developmentCertificates(DEVELOPMENT_DIRECTORY, now);
  const hasGit = ownsRepository() && finds("git", environment);
  const port = Number(environment["STC_PORT"] || PORT);
  const consolePort = portAfter(port, 1);
  // Next to the service's own ports, so that plans and messages always name the same endpoint.
  const grpcPort = portAfter(port, 2);
  const shop = join(PROJECT, "var/shop.sqlite");
  developmentShop(shop);
  const written = {
    server: { host, port: PORT, console: { host, port: consolePort } },
    tools: [
      join(PROJECT, "tools/customer-data"),
      ...GIT_TOOLS,
      join(PROJECT, "tools/workspace"),
      join(PROJECT, "tools/people"),
      join(import.meta.dir, "orders-of-customer.tool.yaml"),
    ],
    audit: {
      dir: join(PROJECT, "audit-logs"),
      checkpointKeyFile: await developmentSigningKey(DEVELOPMENT_DIRECTORY, "checkpoints"),
    },
    approvals: {
      store: `sqlite://${join(PROJECT, "var/approvals.sqlite")}`,
      receiptKeyFile: await developmentSigningKey(DEVELOPMENT_DIRECTORY, "receipts"),
    },
    jwt: {
      issuers: [
        { ...keys.agents, algorithms: ["ES256"] },
        { ...keys.operators, algorithms: ["ES256"], operators: true },
      ],
    },
    systems: {
      "customer-master-service": {
        endpoint: `127.0.0.1:${grpcPort}`,
        proto: join(PROJECT, "proto"),
        tls: {
          rootCert: certificates.paths.rootCert,
          clientCert: certificates.paths.clientCert,
          clientKey: certificates.paths.clientKey,
          serverName: DEVELOPMENT_SERVER_NAME,
        },
      },
      git: { repositories: hasGit ? { self: PROJECT } : {} },
      shop: { sql: { url: `sqlite://${shop}`, columns: { "customers.email": "mask" } } },
    },
    commands: {
      allowed: [...(hasGit ? ["git"] : []), ...(finds("bash", environment) ? ["bash"] : [])],
      confinement: "prefer",
      unconfinedBash: finds("bash", environment),
    },
    workspace: developmentWorkspace(),
    reload: { trigger: "watch" },
  };
  return {
    config: readConfig(written, { folder: PROJECT, environment, origin: "development environment" }, MODULES),
    async start(): Promise<() => Promise<void>> {
      const master = await startCustomerMaster({ certificates, port: grpcPort }).catch(() => {
        throw new StartupError([
          `127.0.0.1:${grpcPort} is in use: the development gRPC service listens on the second port after server.port; set STC_PORT to another port`,
        ]);
      });
      return () => master.close();
    },
  };
}

/** Returns a port after that of the service. */
function portAfter(port: number, distance: number): number {
  return (Number.isInteger(port) && port > 0 && port + distance <= 65_535 ? port : PORT) + distance;
}

/** Returns the URL of the development stand's console on this machine. */
export function developmentConsoleUrl({ STC_PORT, STC_HOST }: Environment): string {
  const host = STC_HOST || "127.0.0.1";
  return `http://${host.includes(":") ? `[${host}]` : host}:${portAfter(Number(STC_PORT || PORT), 1)}`;
}

/**
 * Returns whether the project folder is a complete repository that can be served. An archive of the project contains no
 * repository; a linked work tree or a shared clone depends on the objects of another repository.
 */
function ownsRepository(): boolean {
  const git = join(PROJECT, ".git");
  const isDirectory = lstatSync(git, { throwIfNoEntry: false })?.isDirectory() ?? false;
  return isDirectory && !existsSync(join(git, "objects/info/alternates"));
}

function finds(program: string, { PATH = "" }: Environment): boolean {
  return PATH.split(delimiter).some((folder) => existsSync(join(folder, program)));
}

const WORKSPACE_README = `# Workspace

Commands of the tool \`bash\` work here, and the file tools know it as \`@project\`. Git ignores this folder: nothing in it is part of the project.
`;

/** Returns the working folders of the agents; creates missing folders and never empties them. */
function developmentWorkspace(): { readonly project: string; readonly pkg: string; readonly state: string } {
  const [project = "", pkg = "", state = ""] = ["project", "pkg", "state"].map((name) =>
    join(PROJECT, "workspace", name),
  );
  for (const folder of [project, pkg, state]) mkdirSync(folder, { recursive: true });
  const readme = join(project, "README.md");
  if (!existsSync(readme)) writeFileSync(readme, WORKSPACE_README);
  return { project, pkg, state };
}
