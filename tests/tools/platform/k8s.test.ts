import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { findKubectl } from "../../support/kubectl.ts";
import { KubernetesApi } from "../../support/kubernetes-api.ts";
import { refusalFrom } from "../../targets/command/stand.ts";
import { PlatformStand, SYSTEMS } from "./platform-stand.ts";

const KUBECTL = findKubectl();
if (KUBECTL === undefined) console.log("kubectl is not to be had here: its tests are skipped");

const pod = (name: string, more: Record<string, unknown> = {}) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, namespace: "payments", annotations: { note: "ANNOTATION-SECRET" }, labels: { app: "web" } },
  spec: {
    nodeName: "node-1",
    containers: [
      { name: "web", image: "web:1", env: [{ name: "PASSWORD", value: "ENV-SECRET" }], args: ["ARG-SECRET"] },
    ],
    volumes: [{ name: "s", secret: { secretName: "VOLUME-SECRET" } }],
  },
  status: {
    phase: "Running",
    startTime: "2024-02-03T04:05:06Z",
    message: "MESSAGE-SECRET",
    containerStatuses: [
      {
        name: "web",
        image: "registry/web:1\u001b[31m",
        ready: true,
        restartCount: 2,
        state: { running: { startedAt: "2024-02-03T04:05:07Z" } },
        lastState: { terminated: { message: "LAST-SECRET" } },
      },
    ],
  },
  ...more,
});

const waiting = pod("broken-0", {
  status: {
    phase: "Pending",
    containerStatuses: [
      {
        name: "a",
        ready: false,
        restartCount: 7,
        state: { waiting: { reason: "CrashLoopBackOff", message: "W-SECRET" } },
      },
      { name: "b", ready: true, restartCount: 1, state: { terminated: { reason: "Completed", exitCode: 0 } } },
    ],
  },
});

const PODS = "/api/v1/namespaces/payments/pods";
const EVENTS = "/api/v1/namespaces/payments/events";
const list = (kind: string, items: readonly unknown[]) => ({ apiVersion: "v1", kind, metadata: {}, items });

describe.skipIf(KUBECTL === undefined)("the real kubectl", () => {
  const api = new KubernetesApi();
  const stand = new PlatformStand({ kubectl: KUBECTL ?? "" });

  beforeAll(async () => {
    stand.write("kubeconfig", await api.open());
    await stand.open();
    api.objects.set(PODS, list("PodList", [pod("web-1"), waiting]));
    api.objects.set(`${PODS}/web-1`, pod("web-1"));
    api.objects.set(`${PODS}/web-1/log`, "one\ntwo\u001b[31m red\u001b[0m\nthree\n");
    api.objects.set(
      EVENTS,
      list("EventList", [
        event("old", { lastTimestamp: "2024-02-03T04:05:06Z", count: 3 }),
        event("new", { lastTimestamp: null, eventTime: "2024-02-03T05:05:06.000001Z" }),
        event("oldest", { metadata: { name: "e", namespace: "payments", creationTimestamp: "2023-01-01T00:00:00Z" } }),
      ]),
    );
  });
  beforeEach(() => {
    api.requests.length = 0;
  });
  afterAll(() => api.close());

  /** Only looks, only at this namespace, only as the configured user. */
  const expectOnlyLooks = () => {
    const discovery = /^\/(?:api|apis|version)(?:\/v1)?$/;
    expect(api.requests.length).toBeGreaterThan(0);
    for (const { method, path, authorization } of api.requests) {
      expect(method).toBe("GET");
      expect(authorization).toBe("Bearer cluster-token");
      if (!discovery.test(path))
        expect(path).toMatch(/^\/api\/v1\/namespaces\/payments\/(?:pods|events)(?:\/web-1(?:\/log)?)?$/);
    }
  };

  test("k8s_get_pods shows declared fields and nothing else", async () => {
    const answer = await stand.call("k8s_get_pods", { namespace: "payments" });
    expect(answer).toEqual({
      pods: [
        {
          name: "web-1",
          phase: "Running",
          ready: true,
          restarts: 2,
          node: "node-1",
          startTime: "2024-02-03T04:05:06Z",
          containers: [
            { name: "web", image: "registry/web:1", ready: true, restarts: 2, state: "running", reason: "" },
          ],
        },
        {
          name: "broken-0",
          phase: "Pending",
          ready: false,
          restarts: 8,
          node: "node-1",
          startTime: "",
          containers: [
            { name: "a", image: "", ready: false, restarts: 7, state: "waiting", reason: "CrashLoopBackOff" },
            { name: "b", image: "", ready: true, restarts: 1, state: "terminated", reason: "Completed" },
          ],
        },
      ],
      omittedPods: 0,
    });
    expectOnlyLooks();
  });

  test.each(["app=web", "app=web,tier!=db", "env in (a,b)", "!canary", "a.b/c notin (x, y), z"])(
    "k8s_get_pods sends the selector %p",
    async (labelSelector) => {
      await stand.call("k8s_get_pods", { namespace: "payments", labelSelector });
      const sent = api.requests.find(({ path }) => path === PODS)?.query["labelSelector"];
      expect(sent?.replaceAll(" ", "").split(",").sort()).toEqual(labelSelector.replaceAll(" ", "").split(",").sort());
      expectOnlyLooks();
    },
  );

  test("k8s_get_events shows the newest first", async () => {
    const answer = (await stand.call("k8s_get_events", { namespace: "payments" })) as { readonly events: unknown[] };
    expect(answer.events).toMatchObject([
      { reason: "new", time: "2024-02-03T05:05:06.000001Z", count: 1, kind: "Pod", name: "web-1" },
      { reason: "old", time: "2024-02-03T04:05:06Z", count: 3 },
      { reason: "oldest", time: "2023-01-01T00:00:00Z" },
    ]);
    expectOnlyLooks();
  });

  test("k8s_get_logs shows lines, and requests at most its limit", async () => {
    const args = { namespace: "payments", pod: "web-1", container: "web", lines: 50 };
    expect(await stand.call("k8s_get_logs", args)).toEqual({
      lines: ["one", "two red", "three"],
      droppedLines: 0,
      truncated: false,
    });
    expect(api.requests.find(({ path }) => path.endsWith("/log"))?.query).toMatchObject({
      container: "web",
      tailLines: "50",
      limitBytes: "2097152",
    });
    expectOnlyLooks();
  });

  test.each([
    ["is not there", 404, "NotFound", "TARGET_REFUSED", "NOT_FOUND"],
    ["has several containers", 400, "BadRequest", "TARGET_REFUSED", "INVALID_ARGUMENT"],
    ["is not ours to see", 403, "Forbidden", "TARGET_FAILED", undefined],
    ["is on a node that is gone", 500, "InternalError", "TARGET_FAILED", undefined],
    ["nobody is let to see", 401, "Unauthorized", "TARGET_FAILED", undefined],
  ] as const)("a pod that %s (%d), without the target's text", async (_title, code, reason, wanted, status) => {
    // The words that mean something elsewhere mean nothing here.
    const message = 'pods "SECRET" not found: Error from server (NotFound): rpc error: code = NotFound';
    api.failures.set(`${PODS}/gone-1`, { kind: "Status", apiVersion: "v1", status: "Failure", message, reason, code });
    const refusal = await refusalFrom(stand.call("k8s_get_logs", { namespace: "payments", pod: "gone-1" }));
    expect(refusal.code).toBe(wanted);
    expect(refusal.details?.["status"]).toBe(status);
    expect(JSON.stringify([refusal.message, refusal.details, String(refusal.cause)])).not.toMatch(/gone-1|SECRET/);
  });

  test("nothing is left in the settings folder", () => {
    expect(readdirSync(stand.folder)).toEqual(["kubeconfig"]);
  });
});

function event(reason: string, more: Record<string, unknown>) {
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: "e", namespace: "payments" },
    type: "Warning",
    reason,
    message: "Back-off restarting failed container",
    involvedObject: { kind: "Pod", name: "web-1", namespace: "payments" },
    ...more,
  };
}

describe("kubectl's arguments", () => {
  test("one cluster, one namespace, one deadline, no user preferences", async () => {
    const stand = await new PlatformStand().open();
    stand.recorder("kubectl").answers('{"items":[]}');
    await stand.call("k8s_get_pods", { namespace: "ledger", labelSelector: "app=web" });
    expect(stand.recorder("kubectl").argv()).toEqual([
      ...["get", `--kubeconfig=${stand.folder}/kubeconfig`, "--cache-dir=/dev/null", "--request-timeout=30s"],
      ...["--namespace=ledger", "--output=json", "--selector=app=web", "--", "pods"],
    ]);
    const { STC_CALL_ID, HOME, PWD, ...environment } = stand.recorder("kubectl").environment();
    expect(environment).toMatchObject({ KUBERC: "off", PATH: "/usr/local/bin:/usr/bin:/bin" });
    expect(Object.keys(environment).filter((name) => !/^(?:KUBERC|PATH|LANG|LC_ALL|TZ|_|SHLVL)$/.test(name))).toEqual(
      [],
    );
    expect([typeof STC_CALL_ID, typeof HOME, typeof PWD]).toEqual(["string", "string", "string"]);
  });

  test("a long log is cut, and reports by how much", async () => {
    const stand = await new PlatformStand().open();
    stand.recorder("kubectl").answers(`${"x".repeat(9_000)}\n`.repeat(100));
    const answer = (await stand.call("k8s_get_logs", { namespace: "ledger", pod: "web-1" })) as {
      readonly lines: readonly string[];
      readonly droppedLines: number;
    };
    expect(answer.lines.length + answer.droppedLines).toBe(100);
    expect(answer.droppedLines).toBeGreaterThan(0);
    expect(answer.lines[0]).toEndWith("x… [808 more characters]");
  });

  test.each([
    ["a log that ends in the middle of a line", "one\ntw", { lines: ["one", "tw"], truncated: true }],
    ["an empty log", "", { lines: [], truncated: false }],
    ["an empty line", "\n", { lines: [""], truncated: false }],
  ])("%s", async (_title, stdout, want) => {
    const stand = await new PlatformStand().open();
    stand.recorder("kubectl").answers(stdout);
    expect(await stand.call("k8s_get_logs", { namespace: "ledger", pod: "web-1" })).toMatchObject(want);
  });

  test.each(["", "no json", "[]", '{"items":[{}]}', '{"items":[{"metadata":{"name":7}}]}'])(
    "an answer %p that is not a list of pods is refused",
    async (stdout) => {
      const stand = await new PlatformStand().open();
      stand.recorder("kubectl").answers(stdout);
      expect((await refusalFrom(stand.call("k8s_get_pods", { namespace: "ledger" }))).code).toBe("INVALID_OUTPUT");
    },
  );

  test("an empty namespace is an empty list", async () => {
    const stand = await new PlatformStand().open();
    stand.recorder("kubectl").answers('{"apiVersion":"v1","items":[],"kind":"List"}');
    expect(await stand.call("k8s_get_pods", { namespace: "ledger" })).toEqual({ pods: [], omittedPods: 0 });
    expect(SYSTEMS.kubernetes.namespaces).toContain("ledger");
  });
});
