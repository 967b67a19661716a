import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import { makeCertificates } from "../../src/cli/development/certificates.ts";

const YEAR_2000 = new Date(946_684_800_000);
const YEAR_2100 = new Date(4_102_444_800_000);

export interface ApiRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly authorization: string | undefined;
}

const CORE_RESOURCES = ["pods", "events", "secrets", "configmaps"].map((name) => ({
  name,
  singularName: "",
  namespaced: true,
  kind: { pods: "Pod", events: "Event", secrets: "Secret", configmaps: "ConfigMap" }[name],
  verbs: ["get", "list", "create", "delete", "update", "patch"],
}));

const DISCOVERY: Readonly<Record<string, unknown>> = {
  "/api": { kind: "APIVersions", versions: ["v1"] },
  "/apis": { kind: "APIGroupList", apiVersion: "v1", groups: [] },
  "/api/v1": { kind: "APIResourceList", groupVersion: "v1", resources: CORE_RESOURCES },
  "/version": { major: "1", minor: "35", gitVersion: "v1.35.0" },
};

/** A stand-in for a cluster's API server, which remembers who asked for what. */
export class KubernetesApi {
  readonly requests: ApiRequest[] = [];
  /** By path: an object is sent as JSON, a text as it is. Everything else is not found. */
  readonly objects = new Map<string, unknown>();
  /** By path: what is refused, and how. */
  readonly failures = new Map<string, Readonly<Record<string, unknown>> & { readonly code: number }>();
  #server: Server | undefined;

  /** Listens over TLS, and answers the kubeconfig that reaches it. */
  async open(): Promise<string> {
    const { rootCert, server } = await makeCertificates({ notBefore: YEAR_2000, notAfter: YEAR_2100 });
    const listening = createServer(server, (request, response) => this.#answer(request, response));
    this.#server = listening;
    await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
    const address = listening.address();
    const port = typeof address === "object" ? address?.port : "";
    return kubeconfigFor(`https://localhost:${port}`, rootCert);
  }

  close(): void {
    this.#server?.closeAllConnections();
    this.#server?.close();
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = new URL(request.url ?? "", "http://api");
    const path = url.pathname;
    const { authorization } = request.headers;
    this.requests.push({
      method: request.method ?? "",
      path,
      query: Object.fromEntries(url.searchParams),
      authorization,
    });
    const failure = this.failures.get(path);
    if (failure !== undefined) {
      response.writeHead(failure.code, { "content-type": "application/json" }).end(JSON.stringify(failure));
      return;
    }
    const found = DISCOVERY[path] ?? this.objects.get(path);
    const missing = { kind: "Status", apiVersion: "v1", status: "Failure", reason: "NotFound", code: 404 };
    response.statusCode = found === undefined ? 404 : 200;
    const isText = typeof found === "string";
    response.setHeader("content-type", isText ? "text/plain" : "application/json");
    response.end(isText ? found : JSON.stringify(found ?? missing));
  }
}

/** A kubeconfig for that server. Its own namespace is a trap. */
function kubeconfigFor(server: string, rootCert: string): string {
  const authority = Buffer.from(rootCert).toString("base64");
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "test",
    contexts: [{ name: "test", context: { cluster: "test", user: "test", namespace: "kube-system" } }],
    clusters: [{ name: "test", cluster: { server, "certificate-authority-data": authority } }],
    users: [{ name: "test", user: { token: "cluster-token" } }],
  });
}
