/**
 * One server a process, named by the first argument; prints its port and lives until it is killed. Each imports only what it
 * needs, so that its memory is its own.
 */
const [which, folder = ""] = process.argv.slice(2);

interface Call {
  readonly tool: string;
  readonly args: unknown;
}

const answerTo = ({ tool, args }: Call): object => ({ status: "success", tool, result: args });

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
    const { startService } = await import("../../src/cli/service.ts");
    const { readConfig } = await import("../../src/runtime/config/config.ts");
    const written = {
      server: { port: 0 },
      tools: [`${import.meta.dir}/tools`],
      audit: { dir: `${folder}/audit` },
      jwt: {
        issuers: [
          { issuer: "https://bench", audience: "bench", algorithms: ["ES256"], jwksFile: `${folder}/jwks.json` },
        ],
      },
      commands: { allowed: ["echo"] },
      log: { level: "silent" },
    };
    const environment = { PATH: process.env["PATH"] };
    const service = await startService(readConfig(written, { folder, environment, origin: "bench" }));
    return Number(new URL(service.url).port);
  },
  async grpc(): Promise<number> {
    const { developmentCertificates } = await import("../../src/cli/development/certificates.ts");
    const { startCustomerMaster } = await import("../../src/cli/development/customer-master.ts");
    const certificates = await developmentCertificates(folder, Date.now());
    return (await startCustomerMaster({ certificates, port: 0 })).port;
  },
} as const;

console.log(await START[which as keyof typeof START]());
