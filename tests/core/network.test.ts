import { expect, test } from "bun:test";
import { isLoopback } from "../../src/core/network.ts";

test.each(["localhost", "127.0.0.1", "127.255.0.3", "[::1]", "::1"])("%s is this machine", (host) => {
  expect(isLoopback(host)).toBe(true);
});

test.each([
  ...[
    "",
    "0.0.0.0",
    "128.0.0.1",
    "127.0.0.1.example.org",
    "127.1",
    "localhost.example.org",
    "[::]",
    "::ffff:127.0.0.1",
  ],
  ...["x127.0.0.1", "localhost\n", "[::1", "127.0.0.1:80"],
])("%j is not", (host) => {
  expect(isLoopback(host)).toBe(false);
});
