import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { type GrpcHandler, grpcHandler } from "../../src/targets/grpc/handler.ts";
import { rounds } from "../support/rounds.ts";
import { call } from "../targets/grpc/support/calls.ts";
import { type Lab, labSystem, startLab } from "../targets/grpc/support/lab.ts";
import { rotateUnderLoad } from "../targets/grpc/support/rotation-load.ts";
import { labTool } from "../targets/grpc/support/tool.ts";

/** Long: what only shows after many calls. */
const CALLS = 20_000;
const LANES = 32;
/** The first warms up. Two more tell what grows from what jumped once; a stretch is long enough for a leak of 1 KB in each call. */
const STRETCHES = rounds({ few: 3, many: 5 });
/** From one stretch to the next: what leaks grows in each, what else this process holds jumps once. */
const GROWTH_MAX = 1.08;

let lab: Lab;
let handler: GrpcHandler;

beforeAll(async () => {
  lab = await startLab();
  handler = grpcHandler({ systems: new Map([["lab", labSystem(lab.port)]]) });
});
afterAll(async () => {
  await handler.close();
  lab.close();
});

/** Of this process, which holds the service too. */
function residentMb(): number {
  Bun.gc(true);
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))?.[1]) / 1_024;
}

test(`${STRETCHES} times ${CALLS} gRPC calls leave memory flat`, async () => {
  const binding = handler.bind(labTool({ method: "Inspect" }));
  const run = async (count: number): Promise<void> => {
    let left = count;
    const lane = async (): Promise<void> => {
      while (left-- > 0) await call(binding, {});
    };
    await Promise.all(Array.from({ length: LANES }, lane));
  };
  const sizes: number[] = [];
  for (let stretch = 0; stretch < STRETCHES; stretch += 1) {
    await run(CALLS);
    sizes.push(residentMb());
  }
  const growths = sizes.slice(1).map((size, index) => size / (sizes[index] ?? size));
  expect(Math.min(...growths)).toBeLessThan(GROWTH_MAX);
});

/** The ten exchanges come as often as the load allows, not over a longer time. */
const SECONDS = rounds({ few: 10, many: 20 });

test("certificates are exchanged under load for long, and no call is lost", async () => {
  const { answered, refused, identities, events } = await rotateUnderLoad({
    seconds: SECONDS,
    callsPerSecond: 1_000,
    rotations: 10,
  });
  expect(refused).toEqual([]);
  expect(answered).toBe(SECONDS * 1_000);
  expect(identities).toBe(events.length + 1);
  expect(events.length).toBeGreaterThan(5);
});
