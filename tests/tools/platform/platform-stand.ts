import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ToolFactory } from "safe-tool-call";
import { ManifestError } from "../../../src/core/errors.ts";
import type { Tool } from "../../../src/core/types.ts";
import { cliHandler } from "../../../src/targets/command/handler.ts";
import { argocdDiff } from "../../../tools/platform/argocd-diff.ts";
import { argocdGetApp } from "../../../tools/platform/argocd-get-app.ts";
import { argocdGetSyncStatus } from "../../../tools/platform/argocd-get-sync-status.ts";
import { k8sGetEvents } from "../../../tools/platform/k8s-get-events.ts";
import { k8sGetLogs } from "../../../tools/platform/k8s-get-logs.ts";
import { k8sGetPods } from "../../../tools/platform/k8s-get-pods.ts";
import { queryLogs } from "../../../tools/platform/query-logs.ts";
import { readConfig } from "../../support/build.ts";
import { loadFor } from "../../support/kinds.ts";
import { Recorder } from "../../support/recorder.ts";
import { temporaryDirectory } from "../../targets/command/temporary-directory.ts";

export const PLATFORM_TOOLS: readonly ToolFactory[] = [
  ...[argocdDiff, argocdGetApp, argocdGetSyncStatus, k8sGetEvents, k8sGetLogs, k8sGetPods, queryLogs],
];

type Settings = Readonly<Record<string, unknown>>;

/** What the configuration of these tests says; relative paths are taken from `folder`. */
export const SYSTEMS = {
  kubernetes: { kubeconfig: "kubeconfig", namespaces: ["payments", "ledger"] },
  loki: {
    address: "http://loki.logging:3100",
    namespaces: ["payments", "ledger"],
    bearerTokenFile: "token",
    tenant: "t1",
  },
  argocd: {
    server: "argocd.internal:443",
    applications: ["payments-api", "ledger.api"],
    configFile: "argocd.yaml",
    revisions: ["main", "release/1.2"],
    grpcWeb: true,
  },
} as const;

export async function loadPlatform(systems: Settings, folder: string) {
  const written = {
    tools: [...PLATFORM_TOOLS],
    systems,
    audit: { dir: "audit" },
    jwt: { issuers: [{ issuer: "https://x", jwksUri: "https://x/jwks" }] },
  };
  return loadFor(readConfig(written, { folder, environment: {}, origin: "config" }));
}

const caller = { issuer: "https://idp.test", subject: "agent", permissions: [], actors: [], expiresAt: 0 };

/** The tools over recorded programs. */
export class PlatformStand {
  readonly folder = temporaryDirectory();
  readonly recorders: Readonly<Record<string, Recorder>> = {
    kubectl: new Recorder("kubectl"),
    logcli: new Recorder("logcli"),
    argocd: new Recorder("argocd"),
  };
  readonly #commands: ReadonlyMap<string, string>;
  #tools: readonly Tool[] = [];

  constructor(programs: Readonly<Record<string, string>> = {}) {
    const recorded = Object.fromEntries(Object.entries(this.recorders).map(([name, { program }]) => [name, program]));
    this.#commands = new Map(Object.entries({ ...recorded, ...programs }));
  }

  async open(systems: Settings = SYSTEMS): Promise<this> {
    const { tools, problems, notRegistered } = await loadPlatform(systems, this.folder);
    if (problems.length + notRegistered.length > 0) throw new Error([...problems, ...notRegistered].join("\n"));
    this.#tools = tools;
    return this;
  }

  write(name: string, text: string): void {
    writeFileSync(join(this.folder, name), text);
  }

  tool(name: string): Tool {
    const found = this.#tools.find((tool) => tool.name === name);
    if (found === undefined) throw new ManifestError(name, []);
    return found;
  }

  recorder(name: string): Recorder {
    const found = this.recorders[name];
    if (found === undefined) throw new Error(`no program ${name}`);
    return found;
  }

  accepts(name: string, args: unknown): boolean {
    return this.tool(name).input.safeParse(args).success;
  }

  /** Parses, plans, runs and parses again, as the road does. */
  async call(name: string, args: unknown): Promise<unknown> {
    const tool = this.tool(name);
    const handler = cliHandler({
      commands: this.#commands,
      emptyDirectory: temporaryDirectory(),
      now: () => 0,
      newId: () => crypto.randomUUID(),
    });
    const { signal } = new AbortController();
    const binding = handler.bind(tool);
    const plan = await binding.plan(tool.input.parse(args), { signal });
    return tool.output.parse(await binding.run(plan, { signal, deadline: 20_000, traceId: "trace", caller }));
  }
}
