import { afterAll, expect, test } from "bun:test";
import { FirstDay } from "../support/first-day.ts";

const day = new FirstDay("/nonexistent");
afterAll(() => day.close());

test("stc init, serve, token and call: the service's own tool answers, with the author masked", async () => {
  expect(await day.initToCall()).toBeGreaterThan(0);
});

test("stc import grpc, with three fields accepted: the agent gets these of the stand-in service, and no others", async () => {
  expect(await day.importToCall()).toBeGreaterThan(0);
});
