import { afterAll, beforeAll, expect, test } from "bun:test";
import { type GrpcHandler, type GrpcSystem, grpcHandler } from "../../src/targets/grpc/handler.ts";
import { until } from "../support/until.ts";
import { type Authority, makeAuthority } from "../targets/grpc/support/authority.ts";
import { refusal } from "../targets/grpc/support/calls.ts";
import { type Lab, labSystem, labTls, startLab } from "../targets/grpc/support/lab.ts";
import { labTool, runContext } from "../targets/grpc/support/tool.ts";

type Tls = NonNullable<GrpcSystem["tls"]>;

let own: Authority;
let other: Authority;
let lab: Lab;
let tls: Tls;
beforeAll(async () => {
  [own, other] = await Promise.all([makeAuthority("own.test"), makeAuthority("other.test")]);
  const certificates = await own.set();
  tls = labTls(certificates);
  lab = await startLab({ certificates });
});
afterAll(() => lab.close());

/** A handler, and how its certificates are exchanged. */
function exchanging(): { readonly handler: GrpcHandler; readonly exchange: (tls: Tls) => Promise<void> } {
  let current = tls;
  let changed = (): void => {};
  const events: string[] = [];
  const certificates = {
    read: () => current,
    watch: (tell: () => void) => {
      changed = tell;
      return () => {};
    },
  };
  const handler = grpcHandler({ systems: new Map([["lab", labSystem(lab.port, { tls, certificates })]]) });
  handler.watch({ now: () => Date.now(), report: ({ type }) => void events.push(type) });
  return {
    handler,
    exchange: async (renewed) => {
      current = renewed;
      changed();
      await until("the exchange", () => (events.includes("certificates.changed") ? true : undefined));
    },
  };
}

test("an approval for one identity of the service does not run under another", async () => {
  const { handler, exchange } = exchanging();
  const binding = handler.bind(labTool({ method: "Inspect", classification: "write" }));
  const plan = await binding.plan({}, runContext());
  const before = lab.calls();
  await exchange({ ...tls, rootCert: Buffer.from(`${other.rootCert}\n${own.rootCert}`) });
  const got = await refusal(binding.run(plan, runContext()));
  expect(got).toMatchObject({ code: "TARGET_UNAVAILABLE", message: expect.stringContaining("Call again") });
  expect(lab.calls()).toBe(before);
  expect(await binding.run(await binding.plan({}, runContext()), runContext())).toMatchObject({ headers: {} });
  await handler.close();
});

test("renewing our own certificate changes no plan", async () => {
  const { handler, exchange } = exchanging();
  const binding = handler.bind(labTool({ method: "Inspect", classification: "write" }));
  const plan = await binding.plan({}, runContext());
  const { cert, key } = await own.client();
  await exchange({ ...tls, clientCert: Buffer.from(cert), clientKey: Buffer.from(key) });
  expect(await binding.run(plan, runContext())).toMatchObject({ headers: {} });
  // As a store keeps it.
  expect(await binding.run(JSON.parse(JSON.stringify(plan)), runContext())).toMatchObject({ headers: {} });
  await handler.close();
});
