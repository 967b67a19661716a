import { beforeAll, describe, expect, test } from "bun:test";
import { PlatformStand } from "./platform-stand.ts";

type Args = Readonly<Record<string, unknown>>;

const stand = new PlatformStand();
beforeAll(async () => {
  await stand.open();
});

/** Spellings that a program could take for something else than a name. */
const NO_NAMES = [
  ...["", " ", "-", "--", "-A", "--all-namespaces", "-n=kube-system", "--server=evil", "--kubeconfig=/x", "--as=root"],
  ...[
    "-oyaml",
    "--output=go-template-file=/etc/passwd",
    "--token=x",
    "@/etc/passwd",
    "@",
    "web@x",
    "pod/web",
    "deploy/web",
  ],
  ...[
    "secret/db",
    "secrets",
    "a,b",
    "web,db",
    "..",
    ".",
    "../x",
    "a/../b",
    "/etc/passwd",
    "a..b",
    ".a",
    "a.",
    "-a",
    "a-",
  ],
  ...[
    "a b",
    "a\tb",
    "a\nb",
    "a\0b",
    "a\u0085b",
    "a\u2028b",
    "\ufeffa",
    "a\u200bb",
    "а",
    "ｗeb",
    "Web",
    "WEB",
    "w\u00ebb",
  ],
  ...[
    "a;b",
    "a|b",
    "a&b",
    "$(id)",
    "`id`",
    "a#b",
    "a%2fb",
    "%2e%2e",
    "a\\b",
    "a'b",
    'a"b',
    "a*",
    "*",
    "a?b",
    "a:b",
    "a=b",
  ],
  ...["x".repeat(254), `${"x".repeat(64)}.a`, "a_b", "{a}", "[a]", "~", "~/x", "a\u202eb", "a\ud800", "👻"],
];

const NAME_FIELDS = [
  ["k8s_get_logs", "pod", { namespace: "payments" }],
  ["k8s_get_logs", "container", { namespace: "payments", pod: "web-1" }],
  ["query_logs", "app", { namespace: "payments" }],
] as const;

/** `secrets` is a fine name for a pod or an app: the kind is fixed by the tool. */
const FINE_AS_A_NAME = new Set(["secrets"]);

describe.each(NAME_FIELDS)("%s: %s", (tool, field, rest) => {
  test.each(NO_NAMES.filter((name) => !FINE_AS_A_NAME.has(name)))("%p is refused", (name) => {
    expect(stand.accepts(tool, { ...rest, [field]: name })).toBe(false);
  });

  test.each([7, null, ["web"], { name: "web" }, true].map((value) => [value]))("%p is not a name", (name) => {
    expect(stand.accepts(tool, { ...rest, [field]: name })).toBe(false);
  });

  test.each(["web", "web-1", "a", "0", "secrets", "all", "x".repeat(63)])("%p is accepted", (name) => {
    expect(stand.accepts(tool, { ...rest, [field]: name })).toBe(true);
  });
});

const ENUM_FIELDS = [
  ["k8s_get_pods", "namespace", {}],
  ["k8s_get_events", "namespace", {}],
  ["k8s_get_logs", "namespace", { pod: "web-1" }],
  ["query_logs", "namespace", {}],
  ["argocd_get_app", "app", {}],
  ["argocd_get_sync_status", "app", {}],
  ["argocd_diff", "app", {}],
] as const;

const OUTSIDE = [
  ...[
    "",
    "default",
    "kube-system",
    "all",
    "*",
    "payments,ledger",
    "payments ",
    " payments",
    "Payments",
    "payments/",
    "-A",
  ],
  ...[
    "payments\n",
    "payments\0",
    "payments-api/",
    "argocd/payments-api",
    "payments-api,other",
    "../payments",
    ".*",
    ".+",
  ],
  ...['payments"} # ', "payments|ledger", "constructor", "__proto__", "toString", "pаyments", "--namespace=default"],
];

describe.each(ENUM_FIELDS)("%s: %s", (tool, field, rest) => {
  test.each(OUTSIDE)("%p is refused", (value) => {
    expect(stand.accepts(tool, { ...rest, [field]: value })).toBe(false);
  });

  test("names from the configuration are accepted", () => {
    for (const value of field === "app" ? ["payments-api", "ledger.api"] : ["payments", "ledger"]) {
      expect(stand.accepts(tool, { ...rest, [field]: value })).toBe(true);
    }
  });

  test.each([
    "kubeconfig",
    "context",
    "server",
    "cluster",
    "address",
    "config",
    "token",
    "env",
    "cwd",
    "args",
    "flags",
    "verb",
  ])("there is no argument %p", (key) => {
    const value = field === "app" ? "payments-api" : "payments";
    expect(stand.accepts(tool, { ...rest, [field]: value, [key]: "x" })).toBe(false);
  });
});

const REFUSED: readonly (readonly [string, Args])[] = [
  ...(
    [
      ...[
        "",
        " ",
        ",",
        "app=web,",
        ",app=web",
        "-l",
        "--all-namespaces",
        "app=web --all-namespaces",
        "-app=web",
        "app=-web",
      ],
      ...[
        "=web",
        "!=web",
        "!",
        "!!a",
        "app=a=b",
        "app===b",
        "app=!b",
        "app!b",
        "app in",
        "app in a",
        "app in (a",
        "in (a)",
      ],
      ...[
        "app in (a))",
        "app in ((a))",
        "app on (a)",
        "app in (a) b",
        "(a)",
        "app=a;b",
        "app=$(id)",
        "app=`id`",
        "app=a'b",
      ],
      ...[
        'app="a"',
        "app=a\nb",
        "app=a\0",
        "app=ä",
        "app=@file",
        "@file",
        "a/b/c=d",
        "/a=b",
        "A.B/c=d",
        "../x=y",
        "app=a/b",
      ],
      ...[
        `${"a".repeat(64)}=b`,
        `a=${"b".repeat(64)}`,
        `a=b,${"c=d,".repeat(200)}e`,
        "app=web|db",
        "app=we*",
        "app>1",
        "a&b",
      ],
      ...[
        "app=web\\,x",
        "app=web#",
        "app=.web",
        "app=web.",
        "_app=web",
        "app_=web",
        "app=%2f",
        "app in (a,b),,x",
        "x y z",
      ],
    ] as const
  ).map((labelSelector) => ["k8s_get_pods", { namespace: "payments", labelSelector }] as const),
  ...(
    [
      "0m",
      "4m",
      "1m",
      "25h",
      "1441m",
      "1d",
      "1w",
      "5",
      "m",
      "-5m",
      "5m ",
      " 5m",
      "5M",
      "1.5h",
      "1h30m",
      "5m\n",
      "99999m",
      "@5m",
      "300s",
      "05m",
      "5m,6h",
      "٥m",
    ] as const
  ).map((since) => ["query_logs", { namespace: "payments", since }] as const),
  ...[0, -1, 1_001, 1.5, "100", "1e3", Number.MAX_SAFE_INTEGER, null, [1]].map(
    (limit) => ["query_logs", { namespace: "payments", limit }] as const,
  ),
  ...[0, -1, 1_001, 2.5, "10", "-1", null].map(
    (lines) => ["k8s_get_logs", { namespace: "payments", pod: "web-1", lines }] as const,
  ),
  ...["", "a\0b", "\ud800", "x".repeat(257), 7, null, ["x"], { $regex: "x" }].map(
    (contains) => ["query_logs", { namespace: "payments", contains }] as const,
  ),
  ...(
    [
      ...[
        "",
        "HEAD",
        "-",
        "--local=/etc",
        "--core",
        "develop",
        "main ",
        "main\n",
        "refs/heads/main",
        "main..x",
        "main^",
        "main~1",
      ],
      ...[
        "abc",
        "a".repeat(39),
        "a".repeat(41),
        "g".repeat(40),
        "A".repeat(40),
        `${"a".repeat(40)}^{}`,
        "@{u}",
        "release/1.3",
      ],
      ...["https://evil.example/x", "../main", "Main", "main,release/1.2", "@/etc/passwd", `${"a".repeat(40)}\n`],
    ] as const
  ).map((revision) => ["argocd_diff", { app: "payments-api", revision }] as const),
];

test.each(REFUSED)("%s refuses %j", (tool, args) => {
  expect(stand.accepts(tool, args)).toBe(false);
});

const ACCEPTED: readonly (readonly [string, Args])[] = [
  ...(
    [
      ...[
        "app=web",
        "app==web",
        "app=web,tier!=db",
        "env in (a,b)",
        "env notin (a, b)",
        "!canary",
        "release",
        "app=web,!canary",
      ],
      ...[
        "app.kubernetes.io/name=web",
        "example.com/tier in (gold),x!=y",
        "app = web",
        "app=",
        "a!=",
        "v=1.2_3-x",
        "App=Web_1",
      ],
      ...[
        "env in (a)",
        "env in (,a)",
        "0=0",
        "! canary",
        "in=notin",
        "a in (in,notin)",
        "x=y,x!=z,x in (y)",
        "a.b.c/d",
      ],
    ] as const
  ).map((labelSelector) => ["k8s_get_pods", { namespace: "payments", labelSelector }] as const),
  ...(["5m", "30m", "59m", "1440m", "1h", "6h", "24h"] as const).map(
    (since) => ["query_logs", { namespace: "payments", since }] as const,
  ),
  ...(
    [
      ...[
        "error",
        "--help",
        "@file",
        "-x",
        'status="500"',
        '"} # ',
        "{a=b} |= `x`",
        "größe 🚀",
        "a\nb",
        "a\\",
        "\\",
        '"',
        "#",
      ],
      ...["$(id)", "'; drop table", "%s", "\u202e", "|~ .*", "x".repeat(256), " ", "namespace", "\u001b[31m", "\u2028"],
    ] as const
  ).map((contains) => ["query_logs", { namespace: "payments", contains }] as const),
  ...[1, 1_000].map((limit) => ["query_logs", { namespace: "payments", limit }] as const),
  ...["main", "release/1.2", "0123456789abcdef0123456789abcdef01234567"].map(
    (revision) => ["argocd_diff", { app: "payments-api", revision }] as const,
  ),
];

describe("unusual but valid values are accepted, and stay in their position", () => {
  beforeAll(() => {
    stand.recorder("kubectl").answers('{"items":[]}');
    stand.recorder("logcli").answers("");
    stand.recorder("argocd").answers("");
  });

  test.each(ACCEPTED)("%s accepts %j", async (tool, args) => {
    await stand.call(tool, args);
    const program = tool.startsWith("k8s") ? "kubectl" : ({ query_logs: "logcli" }[tool as "query_logs"] ?? "argocd");
    const argv = stand.recorder(program).argv();
    const end = argv.indexOf("--");
    const known = [...PINNED[program as keyof typeof PINNED], ...VALUES];
    expect(argv.slice(0, end).filter((token) => !known.some((option) => isOption(token, option)))).toEqual([]);
    expect(argv.slice(end + 1)).toHaveLength(1);
    expect(argv.filter((token) => token.startsWith("@"))).toEqual([]);
  });
});

const VALUES = ["--selector=", "--since=", "--limit=", "--revision="];

const PINNED = {
  kubectl: [
    "get",
    "--kubeconfig=",
    "--cache-dir=/dev/null",
    "--request-timeout=30s",
    "--namespace=payments",
    "--output=json",
  ],
  logcli: [
    ...["query", "--addr=http://loki.logging:3100", "--org-id=t1", "--bearer-token-file=", "--quiet", "--timezone=UTC"],
    ...["--output=jsonl", "--include-label="],
  ],
  argocd: ["app", "diff", "--server=argocd.internal:443", "--config=", "--grpc-web", "--core=false"],
} as const;

function isOption(token: string, option: string): boolean {
  return option.endsWith("=") ? token.startsWith(option) : token === option;
}

test("the tables have their expected length", () => {
  expect(NO_NAMES.length + OUTSIDE.length + REFUSED.length).toBeGreaterThan(200);
  expect(ACCEPTED.length).toBeGreaterThan(50);
});
