import { expect, test } from "bun:test";
import { EgressError } from "../../src/egress/request.ts";
import { openHubClient } from "../../src/hub/client/client.ts";
import { HubUnavailable } from "../../src/hub/errors.ts";

test("a process that stands still until after the time limit does not send its request again", async () => {
  let now = 0;
  let sent = 0;
  const client = openHubClient({
    url: new URL("http://127.0.0.1:1"),
    connections: {
      current: {
        client: {
          async send() {
            sent += 1;
            // Runs when the client waits before the next attempt.
            setTimeout(() => {
              now = 600_000;
            }, 0);
            throw new EgressError("unreachable", "connection refused", { sent: false });
          },
          open: () => new Promise(() => {}),
        },
      },
      close() {},
    } as never,
    facts: () => ({ instance: "log-1", version: "0.0.0" }),
    newId: () => "a".repeat(16),
    monotonic: () => now,
    random: () => 0.5,
    log: () => {},
    requestMs: 300_000,
  });
  const error = await client.call("quotas.fill", {}).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(HubUnavailable);
  expect(sent).toBe(1);
});
