import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type CertificateSet, makeCertificates } from "../../../src/cli/development/certificates.ts";
import { readHealth } from "../../../src/targets/grpc/connection/health.ts";
import { type GrpcHandler, type GrpcSystem, grpcHandler } from "../../../src/targets/grpc/handler.ts";
import { until } from "../../support/until.ts";
import { call, refusal } from "./support/calls.ts";
import { type Lab, labSystem, labTls, startLab } from "./support/lab.ts";
import { labTool } from "./support/tool.ts";

const VALID = { notBefore: new Date(946_684_800_000), notAfter: new Date(4_102_444_800_000) };

let certificates: CertificateSet;
let labs: readonly Lab[];
let secure: readonly Lab[];
const handlers: GrpcHandler[] = [];

beforeAll(async () => {
  certificates = await makeCertificates(VALID);
  labs = await Promise.all([startLab({ health: true }), startLab(), startLab()]);
  secure = await Promise.all([startLab({ certificates }), startLab({ certificates })]);
});
afterAll(() => {
  for (const lab of [...labs, ...secure]) lab.close();
});
afterEach(async () => {
  await Promise.all(handlers.splice(0).map((handler) => handler.close()));
});

const portOf = (lab: Lab | undefined): number => lab?.port ?? 0;
const address = ({ port }: { readonly port: number }): string => `127.0.0.1:${port}`;

function handlerOf(system: GrpcSystem): GrpcHandler {
  const handler = grpcHandler({ systems: new Map([["lab", system]]) });
  handlers.push(handler);
  return handler;
}

function several(endpoints: readonly string[], changes: Partial<GrpcSystem> = {}): GrpcSystem {
  const { endpoint: _, ...system } = labSystem(1, changes);
  return { ...system, endpoints };
}

async function ports(handler: GrpcHandler, calls: number): Promise<readonly number[]> {
  const binding = handler.bind(labTool({ method: "Inspect" }));
  const seen: number[] = [];
  for (let made = 0; made < calls; made += 1) {
    const answer = (await call(binding, {})) as { headers: Record<string, string> };
    seen.push(Number(answer.headers["lab-port"]));
  }
  return seen;
}

describe("several endpoints", () => {
  test("are used in turn", async () => {
    const handler = handlerOf(several(labs.map(address)));
    await ports(handler, 1);
    const wanted = labs.map(({ port }) => port).toSorted();
    const inTurn = await until("all three to be connected", async () => {
      const seen = await ports(handler, 6);
      return wanted.every((port) => seen.filter((other) => other === port).length === 2) ? seen : undefined;
    });
    expect(new Set(inTurn.slice(0, 3)).size).toBe(3);
  });

  test("over TLS each is known by the same name", async () => {
    const handler = handlerOf(several(secure.map(address), { tls: labTls(certificates) }));
    const wanted = secure.map(({ port }) => port);
    const seen = await until("both", async () => {
      const found = new Set(await ports(handler, 4));
      return found.size === 2 ? found : undefined;
    });
    expect([...seen].toSorted()).toEqual(wanted.toSorted());
  });

  test("one that is down is skipped, and used again when it is back", async () => {
    const [one] = labs;
    const other = await startLab();
    const handler = handlerOf(several([`127.0.0.1:${portOf(one)}`, address(other)]));
    await until("both", async () => (new Set(await ports(handler, 4)).size === 2 ? true : undefined));
    other.close();
    await until("one alone", async () => (new Set(await ports(handler, 4)).size === 1 ? true : undefined));
    expect(new Set(await ports(handler, 20))).toEqual(new Set([portOf(one)]));
    const back = await startLab({ port: other.port });
    await until("both again", async () => (new Set(await ports(handler, 4)).size === 2 ? true : undefined));
    back.close();
  });

  test("all of them are in the plan", async () => {
    const endpoints = labs.map(address);
    const plan = handlerOf(several(endpoints))
      .bind(labTool({ method: "Inspect" }))
      .plan({}, call as never);
    expect(await plan).toMatchObject({ endpoint: endpoints.join(",") });
  });

  test.each([
    ["none", [], /endpoint is missing/],
    ["one twice", ["a:1", "a:1"], /appears twice/],
    ["too many", Array.from({ length: 17 }, (_, index) => `a:${index + 1}`), /more than 16/],
    ["one without a port", ["a:1", "b"], /must be host:port/],
    ["a scheme", ["a:1", "http://b:2"], /must be host:port/],
  ] as const)("%s does not start", (_title, endpoints, text) => {
    expect(() => grpcHandler({ systems: new Map([["lab", several(endpoints)]]) })).toThrow(text);
  });
});

describe("status", () => {
  const status = async (handler: GrpcHandler) => (await handler.status())["lab"];

  test("of a system that has not been called yet", async () => {
    expect(await status(handlerOf(labSystem(portOf(labs[1]))))).toEqual({
      state: "IDLE",
      circuit: "closed",
      health: null,
      certificateExpiresAt: null,
      calls: { inFlight: 0, max: 256 },
    });
  });

  test("reports the state of the connection and the certificate's expiry", async () => {
    const handler = handlerOf(labSystem(portOf(secure[0]), { tls: labTls(certificates) }));
    await ports(handler, 1);
    expect(await status(handler)).toMatchObject({
      state: "READY",
      certificateExpiresAt: "2100-01-01T00:00:00.000Z",
    });
  });

  test.each([
    [1, "SERVING"],
    [2, "NOT_SERVING"],
    [3, "SERVICE_UNKNOWN"],
    [0, "UNKNOWN"],
    [77, "UNKNOWN"],
    ["unknown service", "SERVICE_UNKNOWN"],
  ] as const)("health %p is %s", async (state, want) => {
    labs[0]?.setHealth(state);
    const handler = handlerOf(labSystem(portOf(labs[0]), { health: { service: "lab.v1.Lab" } }));
    expect(await status(handler)).toMatchObject({ health: want, state: "READY" });
  });

  test("of a service without a health service", async () => {
    const handler = handlerOf(labSystem(portOf(labs[1]), { health: { service: "" } }));
    expect(await status(handler)).toMatchObject({ health: "UNIMPLEMENTED" });
  });

  test("of a missing service", async () => {
    const closed = await startLab();
    closed.close();
    const handler = handlerOf(labSystem(closed.port, { health: { service: "" } }));
    expect(await status(handler)).toMatchObject({ health: "UNREACHABLE", state: "TRANSIENT_FAILURE" });
  });

  test("any answer is read as a health status without an error", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        expect(["SERVING", "NOT_SERVING", "SERVICE_UNKNOWN", "UNKNOWN"]).toContain(readHealth(bytes));
      }),
    );
  });
});

test("a killed service is unavailable, and called again automatically once it is back", async () => {
  const first = await startLab();
  const handler = handlerOf(labSystem(first.port));
  await ports(handler, 1);
  first.close();
  const binding = handler.bind(labTool({ method: "Inspect" }));
  for (let made = 0; made < 12; made += 1) {
    expect((await refusal(call(binding, {}))).code).toBe("TARGET_UNAVAILABLE");
  }
  const second = await startLab({ port: first.port });
  expect(await until("an answer", () => ports(handler, 1).catch(() => undefined))).toEqual([first.port]);
  second.close();
});
