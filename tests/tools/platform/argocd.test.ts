import { beforeAll, describe, expect, test } from "bun:test";
import { withoutCredentials } from "../../../tools/platform/argocd.ts";
import { refusalFrom } from "../../targets/command/stand.ts";
import { PlatformStand } from "./platform-stand.ts";

const stand = new PlatformStand();
const argocd = stand.recorder("argocd");
beforeAll(async () => {
  await stand.open();
});

const FIXED = () => [
  ...["--server=argocd.internal:443", `--config=${stand.folder}/argocd.yaml`, "--grpc-web", "--core=false"],
];

const APPLICATION = {
  metadata: { name: "payments-api", namespace: "argocd", annotations: { note: "ANNOTATION-SECRET" } },
  spec: {
    project: "default",
    destination: { server: "https://kubernetes.default.svc", namespace: "payments" },
    source: {
      repoURL: "https://bot:REPO-SECRET@git.example/payments.git",
      path: "deploy",
      targetRevision: "main",
      helm: { parameters: [{ name: "password", value: "PARAMETER-SECRET" }], values: "token: VALUES-SECRET" },
    },
  },
  status: {
    sync: { status: "OutOfSync", revision: "8f2c1d0e9b7a6f5e4d3c2b1a0f9e8d7c6b5a4f3e" },
    health: { status: "Degraded", message: "HEALTH-SECRET" },
    operationState: {
      phase: "Failed",
      message: "OPERATION-SECRET",
      startedAt: "2024-01-01T00:00:00Z",
      finishedAt: null,
    },
    conditions: [{ type: "ComparisonError", message: "CONDITION-SECRET" }],
    summary: { images: ["registry/web:1"] },
    resources: [
      {
        group: "apps",
        kind: "Deployment",
        namespace: "payments",
        name: "api",
        status: "OutOfSync",
        health: { status: "Degraded" },
      },
      { kind: "Service", namespace: "payments", name: "api", status: "Synced", version: "v1" },
    ],
  },
};

const deployment = {
  group: "apps",
  kind: "Deployment",
  namespace: "payments",
  name: "api",
  sync: "OutOfSync",
  health: "Degraded",
};
const service = { group: "", kind: "Service", namespace: "payments", name: "api", sync: "Synced", health: "" };

describe("argocd_get_app", () => {
  test("shows declared fields and nothing else", async () => {
    argocd.answers(JSON.stringify(APPLICATION));
    const answer = await stand.call("argocd_get_app", { app: "payments-api" });
    expect(answer).toEqual({
      app: "payments-api",
      project: "default",
      destination: { cluster: "", namespace: "payments" },
      sources: [{ repository: "https://git.example/payments.git", path: "deploy", chart: "", targetRevision: "main" }],
      sync: "OutOfSync",
      revisions: ["8f2c1d0e9b7a6f5e4d3c2b1a0f9e8d7c6b5a4f3e"],
      health: "Degraded",
      operation: { phase: "Failed", startedAt: "2024-01-01T00:00:00Z", finishedAt: "" },
      conditions: ["ComparisonError"],
      images: ["registry/web:1"],
      resources: [deployment, service],
      omittedResources: 0,
    });
    expect(argocd.argv()).toEqual(["app", "get", ...FIXED(), "--output=json", "--", "payments-api"]);
    expect(Object.keys(argocd.environment()).filter((name) => name.startsWith("ARGOCD"))).toEqual([]);
  });

  test("an application that was never synced has empty fields", async () => {
    argocd.answers(
      '{"metadata":{"name":"payments-api"},"spec":{"sources":[{"repoURL":"a"},{"repoURL":"b"}]},"status":null}',
    );
    expect(await stand.call("argocd_get_app", { app: "payments-api" })).toMatchObject({
      sync: "",
      sources: [{ repository: "a" }, { repository: "b" }],
      resources: [],
    });
  });

  test.each(["", "{}", "[]", "not json", '{"metadata":{"name":1}}'])("%p is not an application", async (stdout) => {
    argocd.answers(stdout);
    expect((await refusalFrom(stand.call("argocd_get_app", { app: "payments-api" }))).code).toBe("INVALID_OUTPUT");
  });
});

test("argocd_get_sync_status shows what is out of sync", async () => {
  argocd.answers(JSON.stringify(APPLICATION));
  expect(await stand.call("argocd_get_sync_status", { app: "payments-api" })).toEqual({
    app: "payments-api",
    sync: "OutOfSync",
    revisions: ["8f2c1d0e9b7a6f5e4d3c2b1a0f9e8d7c6b5a4f3e"],
    health: "Degraded",
    operation: { phase: "Failed", startedAt: "2024-01-01T00:00:00Z", finishedAt: "" },
    outOfSync: [deployment],
    omittedResources: 0,
  });
});

test.each([
  ["https://user:token@git.example/a.git", "https://git.example/a.git"],
  ["https://token@git.example/a@b.git", "https://git.example/a@b.git"],
  ["https://a@b@git.example/x", "https://git.example/x"],
  ["git@github.com:org/repo.git", "github.com:org/repo.git"],
  ["https://git.example/a?private_token=x#y", "https://git.example/a"],
  ["oci://registry.example/charts", "oci://registry.example/charts"],
  ["", ""],
])("%p without credentials is %p", (address, want) => {
  expect(withoutCredentials(address)).toBe(want);
});

/** As `argocd app diff` prints, with the whole resource as context. */
const section = (heading: string, hunk: string) =>
  `\n===== ${heading} ======\n--- /tmp/argocd-diff1/live.yaml\t2024-01-01 00:00:00.0 +0000\n+++ /tmp/argocd-diff1/api\t2024-01-01 00:00:00.0 +0000\n${hunk}`;

const WORKLOAD = `@@ -1,21 +1,21 @@
 apiVersion: apps/v1
 kind: Deployment
 metadata:
   annotations:
-    last: ANNOTATION-SECRET
+    last: ANNOTATION-OTHER
   name: api
 spec:
-  replicas: 1
+  replicas: 2
   template:
     spec:
       containers:
       - env:
         - name: PASSWORD
-          value: ENV-SECRET
+          value: ENV-OTHER
         - name: MORE
           value: |
             KEY: BLOCK-SECRET
 
             env: still
-        image: web:1
+        image: web:2
         name: web
`;

describe("argocd_diff", () => {
  test("shows differences, without environment and annotations", async () => {
    argocd.answers(section("apps/Deployment payments/api", WORKLOAD), 1);
    const answer = (await stand.call("argocd_diff", { app: "payments-api", revision: "main" })) as Answer;
    expect(answer).toMatchObject({ differs: true, droppedLines: 0 });
    const [file] = answer.files;
    expect(file).toMatchObject({
      oldPath: "apps/Deployment/payments/api",
      newPath: "apps/Deployment/payments/api",
      status: "modified",
    });
    const lines = file?.hunks.flatMap((hunk) => hunk.lines) ?? [];
    expect(lines).toContain("-  replicas: 1");
    expect(lines).toContain("+        image: web:2");
    expect(lines).toContain("-          [withheld]");
    expect(lines.join("\n")).not.toMatch(/SECRET|OTHER|PASSWORD|still/);
    expect(file?.withheldLines).toBe(lines.filter((line) => line.endsWith("[withheld]")).length);
    expect(argocd.argv()).toEqual(["app", "diff", ...FIXED(), "--revision=main", "--", "payments-api"]);
    expect(argocd.environment()["KUBECTL_EXTERNAL_DIFF"]).toBe("diff -U 1000000");
  });

  test("hunks are as narrow as in an ordinary diff, with correct counts", async () => {
    const before = Array.from({ length: 30 }, (_, at) => ` l${at + 1}: x`);
    before.splice(9, 1, "-l10: x", "+l10: y");
    before.splice(26, 1, "-l26: x", "+l26: y", "+more: z");
    argocd.answers(section("/Service payments/api", `@@ -1,30 +1,31 @@\n${before.join("\n")}\n`), 1);
    const [file] = ((await stand.call("argocd_diff", { app: "payments-api" })) as Answer).files;
    expect(file?.hunks.map(({ lines, ...counts }) => [counts, lines[0], lines.at(-1)])).toEqual([
      [{ oldStart: 7, oldLines: 7, newStart: 7, newLines: 7 }, " l7: x", " l13: x"],
      [{ oldStart: 23, oldLines: 7, newStart: 23, newLines: 8 }, " l23: x", " l29: x"],
    ]);
  });

  test.each(["/Secret payments/api", "/ConfigMap payments/api", "bitnami.com/SealedSecret payments/api"])(
    "of %s only the fact that it differs",
    async (heading) => {
      argocd.answers(section(heading, "@@ -1,2 +1,2 @@\n kind: X\n-data: OLD-SECRET\n+data: NEW-SECRET\n"), 1);
      const answer = (await stand.call("argocd_diff", { app: "payments-api" })) as Answer;
      expect(answer.files).toMatchObject([{ hunks: [], withheldLines: 2 }]);
      expect(JSON.stringify(answer)).not.toContain("SECRET");
    },
  );

  test.each([
    [
      "without the whole as context",
      section("apps/Deployment payments/api", "@@ -7,2 +7,2 @@\n a: b\n-  value: X-SECRET\n+  value: Y-SECRET\n"),
    ],
    ["without a heading", "--- a\n+++ b\n@@ -1 +1 @@\n-X-SECRET\n+Y-SECRET\n"],
    [
      "in flow style",
      section(
        "apps/Deployment a/b",
        "@@ -1,2 +1,2 @@\n kind: D\n-env: [{name: a, value: X-SECRET}]\n+env: [{name: a, value: Y-SECRET}]\n",
      ),
    ],
    [
      "with a quoted key",
      section("apps/Deployment a/b", '@@ -1,2 +1,2 @@\n "env":\n-- value: X-SECRET\n+- value: Y-SECRET\n'),
    ],
    [
      "with a field that becomes environment",
      section("apps/Deployment a/b", "@@ -1,2 +1,2 @@\n-args:\n+env:\n - value: X-SECRET\n"),
    ],
  ])("a diff %s shows no values", async (_title, stdout) => {
    argocd.answers(stdout, 1);
    const answer = (await stand.call("argocd_diff", { app: "payments-api" })) as Answer;
    expect(answer.differs).toBe(true);
    expect(JSON.stringify(answer)).not.toContain("SECRET");
  });

  test("new and removed resources", async () => {
    const added = section("apps/Deployment payments/new", "@@ -0,0 +1,2 @@\n+kind: Deployment\n+x: y\n");
    const gone = section("/Service payments/old", "@@ -1 +0,0 @@\n-kind: Service\n");
    argocd.answers(added + gone, 1);
    expect(((await stand.call("argocd_diff", { app: "payments-api" })) as Answer).files).toMatchObject([
      { oldPath: "/dev/null", newPath: "apps/Deployment/payments/new", status: "added" },
      { oldPath: "/Service/payments/old", newPath: "/dev/null", status: "deleted" },
    ]);
  });

  test("nothing differs", async () => {
    argocd.answers("");
    const none = { differs: false, files: [], droppedLines: 0 };
    expect(await stand.call("argocd_diff", { app: "payments-api" })).toEqual(none);
  });

  test.each([
    ["exit 1 that shows nothing", "", 1, "INVALID_OUTPUT"],
    ["a hunk that ends too early", section("a/B c/d", "@@ -1,9 +1,9 @@\n x\n"), 1, "INVALID_OUTPUT"],
    ["exit 20", "FATA rpc error: SECRET", 20, "TARGET_FAILED"],
  ])("%s is not a valid answer", async (_title, stdout, exitCode, code) => {
    argocd.answers(stdout, exitCode);
    const refusal = await refusalFrom(stand.call("argocd_diff", { app: "payments-api" }));
    expect(refusal.code).toBe(code as typeof refusal.code);
    expect(JSON.stringify([refusal.message, refusal.details])).not.toContain("SECRET");
  });

  test.each([
    ["NotFound", "TARGET_REFUSED", "NOT_FOUND"],
    ["PermissionDenied", "TARGET_FAILED", undefined],
    ["Unavailable", "TARGET_FAILED", undefined],
  ] as const)("its server's %s is %s", async (name, code, status) => {
    const line = `time="2026-01-02T03:04:05Z" level=fatal msg="rpc error: code = ${name} desc = SECRET not found"\n`;
    argocd.answers("", 20, line);
    const refusal = await refusalFrom(stand.call("argocd_diff", { app: "payments-api" }));
    expect([refusal.code, refusal.details?.["status"]]).toEqual([code, status]);
    expect(JSON.stringify([refusal.message, refusal.details, String(refusal.cause)])).not.toContain("SECRET");
  });

  test("a resource without visible differences is still named", async () => {
    const bare = "\n===== apps/Deployment payments/a ======\n";
    argocd.answers(`${bare}${section("/Service payments/b", "@@ -1 +1 @@\n-a: 1\n+a: 2\n")}${bare}`, 1);
    expect(((await stand.call("argocd_diff", { app: "payments-api" })) as Answer).files).toMatchObject([
      { newPath: "/Service/payments/b" },
      { newPath: "apps/Deployment/payments/a", hunks: [] },
      { newPath: "apps/Deployment/payments/a", hunks: [] },
    ]);
  });

  test("unreadable ones are counted", async () => {
    argocd.answers("5c5\n< value: X-SECRET\n---\n> value: Y-SECRET\n", 1);
    expect(await stand.call("argocd_diff", { app: "payments-api" })).toEqual({
      differs: true,
      files: [],
      droppedLines: 4,
    });
  });
});

interface Answer {
  readonly differs: boolean;
  readonly droppedLines: number;
  readonly files: readonly {
    readonly hunks: readonly { readonly lines: readonly string[] }[];
    readonly withheldLines: number;
  }[];
}
