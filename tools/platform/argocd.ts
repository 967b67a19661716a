import { parseJson, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
import { listOf, part, text } from "./json-fields.ts";

export const RESOURCES_MAX = 500;

/** What argocd may say before it is reduced to declared fields, and how many may ask at once. */
export const ARGOCD_LIMITS = { outputBytesMax: 16_777_216, concurrentCallsMax: 8 } as const;

/** Its server alone; it leaves files in its temporary directory. */
export const ARGOCD_CONFINEMENT = { network: "system", temporaryDirectory: true } as const;

export const ARGOCD_OPTIONS = ["--server=", "--config=", "--server-crt=", "--grpc-web", "--core=false"] as const;

/** argocd exits with 20 whatever it met; it prints the gRPC status of its server, which no argument of ours can spell. */
export const ARGOCD_REFUSALS = [{ contains: "rpc error: code = NotFound desc = ", means: "NOT_FOUND" }] as const;

/** One server, never the cluster itself (`--core`). */
export function argocdOptions(config: ToolConfig): readonly string[] {
  return [
    `--server=${config.setting("argocd", "server")}`,
    ...(config.has("argocd", "configFile") ? [`--config=${config.path("argocd", "configFile")}`] : []),
    ...(config.has("argocd", "rootCert") ? [`--server-crt=${config.path("argocd", "rootCert")}`] : []),
    ...(config.has("argocd", "grpcWeb") ? ["--grpc-web"] : []),
    "--core=false",
  ];
}

/** The manifest of a tool that reads one application, but for what it makes of the answer. */
export function applicationTool<Answer>(config: ToolConfig, parse: (stdout: string) => Answer) {
  const fixed = argocdOptions(config);
  return {
    classification: "read",
    permissions: { required: ["platform:argocd:read"] },
    input: z.strictObject({ app: config.oneOf("argocd", "applications") }),
    target: {
      system: "argocd",
      cli: {
        command: "argocd",
        confinement: ARGOCD_CONFINEMENT,
        options: [...ARGOCD_OPTIONS, "--output="],
        argsBuilder: ({ app }: { readonly app: string }) => ["app", "get", ...fixed, "--output=json", "--", app],
        stderrMeans: ARGOCD_REFUSALS,
        parse,
      },
    },
    limits: ARGOCD_LIMITS,
    idempotent: true,
  } as const;
}

const Source = z.object({ repoURL: text, path: text, chart: text, targetRevision: text });

/** Of an application, what is read at all: neither parameters nor values nor anything that a message says. */
const Application = z.object({
  metadata: z.object({ name: z.string() }),
  spec: part({
    project: text,
    destination: part({ name: text, namespace: text }),
    source: Source.nullish(),
    sources: listOf(Source),
  }),
  status: part({
    sync: part({ status: text, revision: text, revisions: listOf(z.string()) }),
    health: part({ status: text }),
    operationState: part({ phase: text, startedAt: text, finishedAt: text }),
    conditions: listOf(z.object({ type: text })),
    summary: part({ images: listOf(z.string()) }),
    resources: listOf(
      z.object({
        group: text,
        kind: text,
        namespace: text,
        name: text,
        status: text,
        health: part({ status: text }),
      }),
    ),
  }),
});

export type ApplicationState = z.output<typeof Application>;

export function applicationOf(stdout: string): ApplicationState {
  return Application.parse(parseJson(stdout));
}

export const Resource = z.strictObject({
  group: z.string(),
  kind: z.string(),
  namespace: z.string(),
  name: z.string(),
  sync: z.string(),
  health: z.string(),
});

export function resourcesOf({ status }: ApplicationState): readonly z.output<typeof Resource>[] {
  return status.resources.map(({ health, status: sync, ...resource }) => ({
    ...resource,
    sync,
    health: health.status,
  }));
}

export function revisionsOf({ status: { sync } }: ApplicationState): readonly string[] {
  return sync.revision === "" ? sync.revisions : [sync.revision];
}

/** The address of a repository or chart without user, password and query: tokens stand there. */
export function withoutCredentials(address: string): string {
  const [place = ""] = address.split(/[?#]/, 1);
  const scheme = place.indexOf("://") === -1 ? "" : place.slice(0, place.indexOf("://") + "://".length);
  const [authority = "", ...path] = place.slice(scheme.length).split("/");
  return scheme + [authority.slice(authority.lastIndexOf("@") + 1), ...path].join("/");
}

export const Operation = z.strictObject({ phase: z.string(), startedAt: z.string(), finishedAt: z.string() });
