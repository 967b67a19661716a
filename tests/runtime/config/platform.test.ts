import { describe, expect, test } from "bun:test";
import { loadPlatform, SYSTEMS } from "../../tools/platform/platform-stand.ts";
import { problemsOf } from "./reading.ts";

test.each([
  ["all of it", SYSTEMS],
  ["nothing", {}],
  ["empty sections", { kubernetes: null, loki: {}, argocd: {} }],
  ["a tenant of several", { loki: { tenant: "a|b" } }],
  ["an address with a path", { loki: { address: "https://logs.example:8443/loki" } }],
  ["a server by IPv6", { argocd: { server: "[::1]:8080" } }],
  ["a system of somebody else", { billing: { regions: ["eu"], verbose: true, place: "x" } }],
])("%s is valid", (_title, systems) => {
  expect(problemsOf({ systems })).toEqual([]);
});

const NO_LABELS = [
  "",
  "Payments",
  "a.b",
  "-a",
  "a-",
  "a_b",
  "a/b",
  "a,b",
  "*",
  "--all",
  "x".repeat(64),
  "a b",
  "ä",
  "a\n",
];

describe("names that are not RFC 1123 are named by field", () => {
  test.each(NO_LABELS)("namespace %p", (name) => {
    for (const system of ["kubernetes", "loki"]) {
      const [problem = ""] = problemsOf({ systems: { [system]: { namespaces: ["fine", name] } } });
      expect(problem).toStartWith(`systems.${system}.namespaces[1]: must be a namespace`);
    }
  });

  test.each(["", "A", "argocd/app", "a..b", ".a", "-a", "a_b", "--core", "x".repeat(254)])("application %p", (name) => {
    const [problem = ""] = problemsOf({ systems: { argocd: { applications: [name] } } });
    expect(problem).toStartWith("systems.argocd.applications[0]: must be an application");
  });
});

test.each([
  ["loki.address", { loki: { address: "loki:3100" } }],
  ["loki.address", { loki: { address: "file:///etc" } }],
  ["loki.address", { loki: { address: "http://user:secret@loki" } }],
  ["loki.address", { loki: { address: "http://loki/?x=y" } }],
  ["loki.tenant", { loki: { tenant: "a b" } }],
  ["argocd.server", { argocd: { server: "https://argocd" } }],
  ["argocd.server", { argocd: { server: "argocd/path" } }],
  ["argocd.server", { argocd: { server: "-x" } }],
  ["argocd.revisions[0]", { argocd: { revisions: ["-x"] } }],
  ["kubernetes.execPlugins", { kubernetes: { execPlugins: "yes" } }],
  ["kubernetes.namespaces", { kubernetes: { namespaces: "payments" } }],
  ["kubernetes.namespace", { kubernetes: { namespace: "payments" } }],
])("systems.%s is refused when it is %j", (field, systems) => {
  const problems = problemsOf({ systems });
  expect(problems).toHaveLength(1);
  expect(problems[0]).toContain(`systems.${field}`);
  expect(problems[0]).not.toContain("secret@");
});

describe("a tool without its setting is not registered, with a note", () => {
  const { kubernetes, loki, argocd } = SYSTEMS;
  test.each([
    [
      "no kubeconfig",
      { loki, argocd, kubernetes: { namespaces: ["a"] } },
      4,
      "systems.kubernetes.kubeconfig is not set",
    ],
    [
      "no namespaces",
      { loki, argocd, kubernetes: { ...kubernetes, namespaces: [] } },
      4,
      "systems.kubernetes.namespaces is empty",
    ],
    ["no address", { kubernetes, argocd, loki: { namespaces: ["a"] } }, 6, "systems.loki.address is not set"],
    ["no server", { kubernetes, loki, argocd: { applications: ["a"] } }, 4, "systems.argocd.server is not set"],
    ["no applications", { kubernetes, loki, argocd: { server: "a" } }, 4, "systems.argocd.applications is empty"],
    ["nothing", {}, 0, "systems.argocd"],
  ])("%s", async (_title, systems, registered, reason) => {
    const { tools, problems, notRegistered } = await loadPlatform(systems, "/");
    expect(problems).toEqual([]);
    expect(tools).toHaveLength(registered);
    expect(notRegistered).toHaveLength(7 - registered);
    expect(notRegistered[0]).toContain(reason);
  });

  test("without revisions only full commit ids are accepted", async () => {
    const { server, applications } = argocd;
    const { tools } = await loadPlatform({ argocd: { server, applications } }, "/");
    const diff = tools.find(({ name }) => name === "argocd_diff");
    const accepts = (revision: string) => diff?.input.safeParse({ app: "payments-api", revision }).success;
    expect([accepts("main"), accepts("a".repeat(40))]).toEqual([false, true]);
  });
});
