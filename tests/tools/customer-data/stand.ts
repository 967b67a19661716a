import { DEVELOPMENT_SERVER_NAME, makeCertificates } from "../../../src/cli/development/certificates.ts";
import { CUSTOMER_MASTER_PROTO_FOLDER, startCustomerMaster } from "../../../src/cli/development/customer-master.ts";
import type { Binding, RunContext, Tool } from "../../../src/core/types.ts";
import { grpcHandler } from "../../../src/targets/grpc/handler.ts";

const YEAR_2000 = new Date(946_684_800_000);
const YEAR_2100 = new Date(4_102_444_800_000);
const FAR_DEADLINE = 4_000_000_000_000;

/** The customer master and a handler that reaches it by mutual TLS. */
export interface Stand {
  bind(tool: Tool): Binding;
  /** What the service answers to these arguments, after the input and through the output schema. */
  call(tool: Tool, args: unknown, context?: Partial<RunContext>): Promise<unknown>;
  close(): Promise<void>;
}

export async function openStand(): Promise<Stand> {
  const { rootCert, server, client } = await makeCertificates({ notBefore: YEAR_2000, notAfter: YEAR_2100 });
  const certificates = {
    rootCert: Buffer.from(rootCert),
    server: { cert: Buffer.from(server.cert), key: Buffer.from(server.key) },
  };
  const master = await startCustomerMaster({ certificates, port: 0 });
  const system = {
    endpoint: `127.0.0.1:${master.port}`,
    protoDirs: [CUSTOMER_MASTER_PROTO_FOLDER],
    maxMessageBytes: 4_194_304,
    tls: {
      rootCert: certificates.rootCert,
      clientCert: Buffer.from(client.cert),
      clientKey: Buffer.from(client.key),
      serverName: DEVELOPMENT_SERVER_NAME,
    },
  };
  const handler = grpcHandler({ systems: new Map([["customer-master-service", system]]) });
  const bindings = new Map<string, Binding>();
  const bind = (tool: Tool): Binding => {
    const binding = bindings.get(tool.name) ?? handler.bind(tool);
    bindings.set(tool.name, binding);
    return binding;
  };
  return {
    bind,
    async call(tool, args, changes = {}) {
      const context: RunContext = {
        signal: new AbortController().signal,
        deadline: FAR_DEADLINE,
        traceId: "0190b0a0-0000-7000-8000-000000000001",
        traceparent: undefined,
        caller: { issuer: "https://idp.test", subject: "agent-7", permissions: [], actors: [], expiresAt: 0 },
        ...changes,
      };
      const binding = bind(tool);
      const plan = await binding.plan(tool.input.parse(args), { signal: context.signal });
      return tool.output.parse(await binding.run(plan, context));
    },
    async close() {
      await handler.close();
      await master.close();
    },
  };
}
