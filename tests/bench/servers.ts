import { mkdtempSync } from "node:fs";

/**
 * One server a process, named by the first argument; prints its port and lives until it is killed. Each imports only what it
 * needs, so that its memory is its own. `target` is the port of the server that the service calls, the file of its database, its
 * number of workers, a folder for its audit, or its first tenant.
 */
const [which, folder = "", target = "", ...more] = process.argv.slice(2);

interface Call {
  readonly tool: string;
  readonly args: unknown;
}

const answerTo = ({ tool, args }: Call): object => ({ status: "success", tool, result: args });

/** Starts the service as an operator does, with a durable audit in a folder of its own. */
async function startGoverned(more: Readonly<Record<string, unknown>>): Promise<number> {
  const { startService } = await import("../../src/cli/service.ts");
  const { readConfig } = await import("../support/build.ts");
  const issuer = { issuer: "https://bench", audience: "bench", algorithms: ["ES256"], jwksFile: `${folder}/jwks.json` };
  const written = {
    ...{ server: { port: 0 }, audit: { dir: mkdtempSync(`${folder}/audit-`) }, jwt: { issuers: [issuer] } },
    ...{ log: { level: "silent" }, ...more },
  };
  // A worker of this process starts as this process did.
  const { PATH, STC_WORKER } = process.env;
  const environment = { PATH, STC_WORKER };
  const service = await startService(readConfig(written, { folder, environment, origin: "bench" }));
  return Number(new URL(service.url).port);
}

const START = {
  async bare(): Promise<number> {
    const { default: fastify } = await import("fastify");
    const app = fastify();
    app.post<{ Body: Call }>("/call", async ({ body }) => answerTo(body));
    return Number(new URL(await app.listen({ port: 0, host: "127.0.0.1" })).port);
  },
  async bareBun(): Promise<number | undefined> {
    const answer = async (request: Request): Promise<Response> =>
      Response.json(answerTo((await request.json()) as Call));
    return Bun.serve({ port: 0, hostname: "127.0.0.1", routes: { "/call": { POST: answer } } }).port;
  },
  async governed(): Promise<number> {
    return await startGoverned({
      tools: [`${import.meta.dir}/tools`],
      commands: { allowed: ["echo"] },
      ...(target !== "" && { audit: { dir: `${folder}/${target}` } }),
    });
  },
  /** The service with this number of workers, which write their logs below one folder. */
  async governedWorkers(): Promise<number> {
    return await startGoverned({
      tools: [`${import.meta.dir}/tools`],
      commands: { allowed: ["echo"] },
      server: { port: 0, workers: Number(target) },
      audit: { dir: `${folder}/audit-workers-${target}` },
      approvals: { store: `sqlite://${folder}/approvals-${target}.sqlite` },
    });
  },
  /** The service with these tenants. They may leave as many requests for approval as they like. */
  async governedTenants(): Promise<number> {
    const names = [...new Set([target, ...more])];
    const issuer = {
      issuer: "https://bench",
      audience: "bench",
      algorithms: ["ES256"],
      jwksFile: `${folder}/jwks.json`,
    };
    return await startGoverned({
      tools: [`${import.meta.dir}/tools`],
      commands: { allowed: ["echo"] },
      jwt: { issuers: [{ ...issuer, tenants: { claim: "tenant", names } }] },
      approvals: {
        store: `sqlite://${mkdtempSync(`${folder}/approvals-`)}/approvals.sqlite`,
        ...{ pendingPerCallerMax: 10_000, pendingPerSessionMax: 10_000 },
      },
      tenants: Object.fromEntries(
        names.map((name) => [name, { tools: [`${import.meta.dir}/tools`], commands: { allowed: ["echo"] } }]),
      ),
    });
  },
  async api(): Promise<number> {
    return await (await import("./customer-api.ts")).startCustomerApi();
  },
  async governedApi(): Promise<number> {
    const { customerTool } = await import("./customer-api.ts");
    const http = { baseUrl: `http://127.0.0.1:${target}/v1`, addresses: ["loopback"] };
    return await startGoverned({ tools: [customerTool], systems: { customers: { http } } });
  },
  async grpc(): Promise<number> {
    const { developmentCertificates } = await import("../../src/cli/development/certificates.ts");
    const { startCustomerMaster } = await import("../../src/cli/development/customer-master.ts");
    const certificates = await developmentCertificates(folder, Date.now());
    return (await startCustomerMaster({ certificates, port: 0 })).port;
  },
  /** An MCP server that answers at once: what is measured is the way to it. */
  async mcp(): Promise<number | undefined> {
    const schema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
    const about = { capabilities: { tools: {} }, serverInfo: { name: "bench", version: "1" } };
    const resultOf = (method: string, params: Readonly<Record<string, unknown>>): unknown => {
      if (method === "initialize") return { ...about, protocolVersion: params["protocolVersion"] };
      if (method === "tools/list") return { tools: [{ name: "echo", inputSchema: schema }] };
      return { content: [{ type: "text", text: (params["arguments"] as { text: string }).text }] };
    };
    const answer = async (request: Request): Promise<Response> => {
      const { id, method, params } = (await request.json()) as { id?: number; method: string; params: object };
      if (id === undefined) return new Response(null, { status: 202 });
      return Response.json({ jsonrpc: "2.0", id, result: resultOf(method, { ...params }) });
    };
    return Bun.serve({ port: 0, hostname: "127.0.0.1", routes: { "/mcp": { POST: answer } } }).port;
  },
  /** A tool of that server. */
  async governedMcp(): Promise<number> {
    const { upstreamEcho, upstreamSystem } = await import("./mcp-tool.ts");
    return await startGoverned({ tools: [upstreamEcho], systems: upstreamSystem(target) });
  },
  /** A tool that runs one query of a SQLite database. */
  async governedDatabase(): Promise<number> {
    const { customerQuery } = await import("./customer-database.ts");
    return await startGoverned({ tools: [customerQuery(target)] });
  },
  /** Answers other programs' questions whether a call would be allowed. */
  async governedDecisions(): Promise<number> {
    const issuer = { issuer: "https://bench", algorithms: ["ES256"], jwksFile: `${folder}/jwks.json` };
    const issuers = [
      { ...issuer, audience: "bench" },
      { ...issuer, audience: "bench-operators", operators: true },
    ];
    const roles = { caller: { permissions: ["bench:run"] }, asker: { permissions: ["policy:evaluate"] } };
    const bindings = [
      { role: "caller", subject: "bench" },
      { role: "asker", subject: "gateway", operators: true },
    ];
    return await startGoverned({
      tools: [`${import.meta.dir}/tools`],
      commands: { allowed: ["echo"] },
      jwt: { issuers },
      roles,
      bindings,
    });
  },
} as const;

export type BenchServer = keyof typeof START;

console.log(await START[which as BenchServer]());
