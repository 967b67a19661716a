import { expect, test } from "bun:test";
import { EgressError } from "../../src/egress/request.ts";
import { openHubClient } from "../../src/hub/client/client.ts";
import type { HubAnswer } from "../../src/hub/contract.ts";
import { HubUnavailable } from "../../src/hub/errors.ts";
import { until } from "../support/until.ts";

type Open = (signal: AbortSignal) => unknown;

const noStream: Open = (signal) => new Promise((_, reject) => signal.addEventListener("abort", reject));

/** A client whose attempts end as the test says: with an answer's value, or an error. */
function clientOf(attempt: (id: string, signal: AbortSignal) => unknown, open = noStream, monotonic = () => 0) {
  let ids = 0;
  const client = openHubClient({
    url: new URL("http://127.0.0.1:1"),
    connections: {
      current: {
        client: {
          async send({ body, signal }: { readonly body: string; readonly signal: AbortSignal }) {
            const { id } = JSON.parse(body);
            const value = await attempt(id, signal);
            return { status: 200, headers: {}, body: Buffer.from(JSON.stringify({ id, value, now: 1 })) };
          },
          open: ({ signal }: { readonly signal: AbortSignal }) => open(signal),
        },
      },
      close() {},
    } as never,
    facts: () => ({ instance: "log-1", version: "0.0.0" }),
    newId() {
      ids += 1;
      return `request-${ids}`;
    },
    // Only the delay before a repetition exceeds the time limit.
    monotonic,
    random: () => 0,
    log: () => {},
    requestMs: 1,
  });
  return client;
}

const lost = (sent: boolean): never => {
  throw new EgressError("lost", "the connection ended", { sent });
};

test("a request that was never sent is not repeated after its time limit; one that may have arrived is", async () => {
  const attempts: string[] = [];
  const reported: unknown[] = [];
  let isAway = true;
  const client = clientOf((id) => {
    attempts.push(id);
    return isAway ? lost(attempts.length > 1) : "done";
  });
  const late = (answer?: HubAnswer): void => void reported.push(answer?.value);
  await expect(client.call("claim", {}, { late })).rejects.toBeInstanceOf(HubUnavailable);
  await expect(client.call("claim", {}, { late })).rejects.toBeInstanceOf(HubUnavailable);
  isAway = false;
  await until("the late answer", () => reported.length > 1 || undefined);
  expect(attempts.filter((id) => id === "request-1")).toHaveLength(1);
  // No answer will come to the first one.
  expect(reported).toEqual([undefined, "done"]);
  await client.close();
});

test("a report that was never sent is repeated after its time limit", async () => {
  const attempts: string[] = [];
  let isAway = true;
  const client = clientOf((id) => {
    attempts.push(id);
    return isAway ? lost(false) : "done";
  });
  await expect(client.call("settle", {}, { isReport: true })).rejects.toBeInstanceOf(HubUnavailable);
  isAway = false;
  await until("the repetition", () => attempts.length > 1 || undefined);
  expect(attempts).toEqual(["request-1", "request-1"]);
  await client.close();
});

test("a report that the hub never answers does not hold those that follow", async () => {
  let now = 0;
  let isAway = true;
  let isDone = false;
  const attempt = (id: string): unknown => {
    if (isAway) return lost(true);
    if (id === "request-1") {
      now += 12_000;
      return lost(true);
    }
    isDone = true;
    return "done";
  };
  const client = clientOf(attempt, noStream, () => now);
  for (let turn = 0; turn < 2; turn += 1) {
    await expect(client.call("settle", {}, { isReport: true })).rejects.toBeInstanceOf(HubUnavailable);
  }
  isAway = false;
  await until("the second report", () => isDone || undefined);
  expect(now).toBeLessThan(60_000);
  await client.close();
});

test("the same request continues the one that got no answer, under its id; another has an id of its own", async () => {
  const reported: unknown[] = [];
  let isAway = true;
  const client = clientOf((id) => (isAway ? lost(true) : id));
  const options = { late: (answer?: HubAnswer): void => void reported.push(answer?.value), resumes: true };
  for (let turn = 0; turn < 3; turn += 1) {
    await expect(client.call("beginKey", { key: "a" }, options)).rejects.toBeInstanceOf(HubUnavailable);
  }
  await expect(client.call("beginKey", { key: "b" }, options)).rejects.toBeInstanceOf(HubUnavailable);
  isAway = false;
  const resumed = await client.call("beginKey", { key: "a" }, options);
  expect(resumed.value).toBe("request-1");
  await until("the late answer of the other one", () => reported.length > 0 || undefined);
  expect(reported).toEqual(["request-2"]);
  expect((await client.call("beginKey", { key: "a" }, options)).value).toBe("request-3");
  await client.close();
});

test("a request that waits is sent again under its id when the stream breaks, before its own time limit", async () => {
  const breaking = Promise.withResolvers<void>();
  let streams = 0;
  const attempts: string[] = [];
  const client = clientOf(
    (id, signal) => {
      attempts.push(id);
      if (attempts.length > 1) return "decided";
      return new Promise((_, reject) =>
        signal.addEventListener("abort", () => reject(new EgressError("aborted", "given up", { sent: true }))),
      );
    },
    async (signal) => {
      streams += 1;
      if (streams > 1) return noStream(signal);
      return {
        status: 200,
        body: (async function* () {
          yield Buffer.from('event: ping\ndata: {"now":1}\n\n');
          await breaking.promise;
          throw new EgressError("lost", "the connection ended", { sent: true });
        })(),
      };
    },
  );
  await until("the stream", () => client.isConnected || undefined);
  const waiting = client.call("awaitEvents", {}, { timeoutMs: 60_000 });
  breaking.resolve();
  expect((await waiting).value).toBe("decided");
  expect(attempts).toEqual(["request-1", "request-1"]);
  await client.close();
});

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
