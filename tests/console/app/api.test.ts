import { expect, test } from "bun:test";
import { backoffMs, request } from "../../../src/console/app/api.ts";
import { RawServer } from "../../support/raw-server.ts";

test("the delay before the next attempt doubles, up to 20 seconds, and half of it is random", () => {
  expect([0, 1, 2, 3].map((failures) => backoffMs(failures, 1))).toEqual([400, 800, 1_600, 3_200]);
  expect([0, 5, 1_000].map((failures) => backoffMs(failures, 0))).toEqual([200, 6_400, 10_000]);
  expect(backoffMs(1_000, 1)).toBe(20_000);
});

test("an answer that is cut off is a lost connection, not an answer of somebody else", async () => {
  const server = await RawServer.start();
  server.answer = ({ socket }) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{"approval":');
  try {
    const url = `http://127.0.0.1:${server.port}/approvals/1/decisions`;
    expect(await request("POST", url, { body: {} }).catch((error: unknown) => error)).toMatchObject({
      ...{ name: "ApiError", code: "OFFLINE", status: 200, message: "The service's answer was cut off." },
    });
  } finally {
    server.close();
  }
});
