import { afterEach, expect, test } from "bun:test";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import type { CertificateSet } from "../../src/cli/development/certificates.ts";
import { Refusal } from "../../src/core/errors.ts";
import { type GrpcHandler, type GrpcSystem, grpcHandler } from "../../src/targets/grpc/handler.ts";
import { until } from "../support/until.ts";
import { makeAuthority } from "../targets/grpc/support/authority.ts";
import { call, refusal } from "../targets/grpc/support/calls.ts";
import { type Lab, labSystem, labTls, startLab } from "../targets/grpc/support/lab.ts";
import { labTool, runContext } from "../targets/grpc/support/tool.ts";

/** Takes connections in a service's place: some it never answers, the others go through to the service. */
interface Doorman {
  readonly port: number;
  readonly open: ReadonlySet<Socket>;
  taken(): number;
  close(): void;
}

const closers: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function startDoorman(isIgnored: (nth: number) => boolean, port: number): Promise<Doorman> {
  const open = new Set<Socket>();
  let taken = 0;
  const server: Server = createServer((socket) => {
    taken += 1;
    open.add(socket);
    socket.on("close", () => open.delete(socket)).on("error", () => {});
    if (isIgnored(taken)) {
      socket.resume();
      return;
    }
    const through = connect(port, "127.0.0.1").on("error", () => socket.destroy());
    socket.pipe(through).pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const doorman = {
    port: (server.address() as AddressInfo).port,
    open,
    taken: () => taken,
    close: () => {
      for (const socket of open) socket.destroy();
      server.close();
    },
  };
  closers.push(doorman.close);
  return doorman;
}

async function lab(certificates?: CertificateSet): Promise<Lab> {
  const started = await startLab(certificates === undefined ? {} : { certificates });
  closers.push(() => started.close());
  return started;
}

function handlerOf(port: number, changes: Partial<GrpcSystem> = {}): GrpcHandler {
  const handler = grpcHandler({ systems: new Map([["lab", labSystem(port, changes)]]) });
  closers.push(() => handler.close());
  return handler;
}

/** Repeats a call until a connection is ready: a call waits half a second for it, in which a busy machine may complete no handshake. */
function connectedAgain(handler: GrpcHandler): Promise<unknown> {
  return until("an answer", async () =>
    ask(handler, 15_000).catch((error) => {
      if (!(error instanceof Refusal) || error.code !== "TARGET_UNAVAILABLE") throw error;
      return undefined;
    }),
  );
}

const ask = (handler: GrpcHandler, ms: number): Promise<unknown> =>
  call(handler.bind(labTool({ method: "Inspect" })), {}, runContext({ signal: AbortSignal.timeout(ms) }));

test("a service that accepted a connection and stayed silent is connected again, and becomes available", async () => {
  const doorman = await startDoorman((nth) => nth === 1, (await lab()).port);
  const handler = handlerOf(doorman.port);
  expect(await connectedAgain(handler)).toMatchObject({ headers: {} });
  expect(doorman.taken()).toBe(2);
  expect(await ask(handler, 15_000)).toMatchObject({ headers: {} });
  await until("the first connection's end", () => (doorman.open.size === 1 ? true : undefined));
});

test("so is one that never completed the handshake", async () => {
  const certificates = await (await makeAuthority("hung.test")).set();
  const doorman = await startDoorman((nth) => nth === 1, (await lab(certificates)).port);
  const handler = handlerOf(doorman.port, { tls: labTls(certificates) });
  expect(await connectedAgain(handler)).toMatchObject({ headers: {} });
  await until("the first connection's end", () => (doorman.open.size === 1 ? true : undefined));
});

test("a connection in progress ends with the handler, and no other begins", async () => {
  const doorman = await startDoorman(() => true, 1);
  const handler = handlerOf(doorman.port);
  const deadline = new AbortController();
  const context = runContext({ signal: deadline.signal });
  const asked = refusal(call(handler.bind(labTool({ method: "Inspect" })), {}, context));
  await until("the connection", () => (doorman.open.size === 1 ? true : undefined));
  deadline.abort(new DOMException("", "TimeoutError"));
  expect((await asked).code).toBe("DEADLINE_EXCEEDED");
  await handler.close();
  await until("the connection's end", () => (doorman.open.size === 0 ? true : undefined));
  expect(doorman.taken()).toBe(1);
});

test("a working connection is not closed, however long its calls take", async () => {
  const service = await lab();
  const doorman = await startDoorman(() => false, service.port);
  const handler = handlerOf(doorman.port);
  const hanging = refusal(
    call(handler.bind(labTool({ method: "Hang" })), {}, runContext({ signal: AbortSignal.timeout(7_000) })),
  );
  await service.hangBegun();
  expect((await hanging).code).toBe("DEADLINE_EXCEEDED");
  expect(await ask(handler, 5_000)).toMatchObject({ headers: {} });
  expect(doorman.taken()).toBe(1);
});
