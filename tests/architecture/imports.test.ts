import { expect, test } from "bun:test";
import { importsOf, sources } from "./sources.ts";

/** Which module may import which, inside `src`. A module is a folder, or a file in `src` or `src/runtime`. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  native: ["core"],
  http1: [],
  egress: ["core", "http1"],
  "egress/grpc": ["core", "egress"],
  database: ["core"],
  detection: ["core"],
  "shell-rules": ["core"],
  approvals: ["core", "egress", "database", "shell-rules"],
  "data-flow": ["core", "database"],
  "decision-points": ["core", "egress", "egress/grpc"],
  halts: ["core", "database"],
  quotas: ["core", "database"],
  "approvals/messages": ["core", "detection"],
  audit: ["core", "egress", "database", "native"],
  "targets/command": ["core", "native"],
  "targets/grpc": ["core", "egress", "egress/grpc"],
  "targets/http": ["core", "egress"],
  "targets/files": ["core", "native"],
  "targets/function": ["core"],
  "targets/mcp": ["core", "egress"],
  "targets/sql": ["core", "egress", "database"],
  pipeline: ["core", "egress", "database", "approvals", "data-flow", "halts", "quotas", "audit", "detection"],
  // The parts that a configuration is read and assembled from: types alone.
  "runtime/module-types.ts": [
    ...["core", "egress", "database", "shell-rules", "decision-points", "audit", "detection", "pipeline"],
    ...["targets/command", "targets/files", "targets/mcp"],
  ],
  "runtime/own-code.ts": ["core"],
  // Of features, the types of the settings that every build has.
  "runtime/config": ["core", "audit", "pipeline", "decision-points", "runtime/module-types.ts"],
  "runtime/manifests": ["core", "runtime/config"],
  "runtime/telemetry": ["core", "egress"],
  "runtime/log": ["core", "detection", "audit"],
  "runtime/reload": ["core", "audit", "pipeline", "runtime/config", "runtime/manifests", "runtime/composition"],
  "runtime/composition": [
    ...[
      "core",
      "runtime/config",
      "runtime/manifests",
      "runtime/module-types.ts",
      "runtime/own-code.ts",
      "runtime/reload",
    ],
    ...["runtime/telemetry", "runtime/inventory", "runtime/replay"],
    ...[
      "database",
      "pipeline",
      "approvals",
      "shell-rules",
      "data-flow",
      "decision-points",
      "halts",
      "quotas",
      "audit",
      "detection",
      "hub",
      "egress",
    ],
  ],
  "runtime/inventory": [
    ...["core", "approvals", "detection", "pipeline"],
    ...["runtime/composition", "runtime/config", "runtime/reload"],
  ],
  "runtime/replay": [
    ...["core", "approvals", "audit", "detection", "pipeline", "data-flow", "quotas"],
    ...["runtime/composition", "runtime/config"],
  ],
  "runtime/safe-tool-call.ts": [
    ...["core", "approvals", "halts", "detection", "pipeline"],
    ...["runtime/composition", "runtime/config", "runtime/module-types.ts"],
  ],
  http: ["core", "http1", "pipeline", "approvals", "data-flow", "halts", "quotas", "audit", "runtime/reload"],
  hub: ["core", "egress", "database", "approvals", "halts", "quotas", "data-flow", "pipeline", "http"],
  mcp: ["core", "pipeline", "approvals", "http"],
  console: ["core", "database", "pipeline", "audit", "egress", "http", "console/app"],
  // Runs in browsers: nothing of the service but pure functions of `core`.
  "console/app": ["core"],
  workers: ["core", "pipeline", "runtime/reload"],
  bundles: ["core", "audit", "egress", "runtime/config", "runtime/reload"],
  cli: [
    "bundles",
    ...["core", "approvals", "audit", "detection", "egress", "http", "pipeline", "targets/command", "cli/development"],
    "targets/sql",
    ...["modules.ts", "index.ts", "runtime/composition", "runtime/config", "runtime/log", "runtime/module-types.ts"],
    "runtime/own-code.ts",
    ...["runtime/manifests", "runtime/inventory", "runtime/reload", "runtime/replay", "targets/http", "workers"],
  ],
  "cli/development": ["core", "modules.ts", "runtime/config"],
  "index.ts": [
    ...["core", "approvals", "approvals/messages", "halts", "audit", "detection", "modules.ts"],
    ...["targets/command", "targets/grpc", "targets/http", "targets/mcp", "targets/sql"],
    ...["runtime/manifests", "runtime/module-types.ts", "runtime/safe-tool-call.ts"],
  ],
  // The list of what a build contains. Programs import it, and nothing else.
  "modules.ts": [
    ...[
      "core",
      "approvals",
      "audit",
      "database",
      "detection",
      "pipeline",
      "shell-rules",
      "decision-points",
      "http",
      "mcp",
      "console",
      "runtime/composition",
      "runtime/module-types.ts",
    ],
    ...["targets/command", "targets/files", "targets/grpc", "targets/http", "targets/function", "targets/mcp"],
    "targets/sql",
  ],
};

/** Packages by module; Node's own modules are judged by the capabilities. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  core: ["zod"],
  http1: ["undici/lib/llhttp/llhttp_simd-wasm.js"],
  detection: ["libphonenumber-js/metadata.max.json", "re2js"],
  approvals: ["jose", "unbash", "zod"],
  "shell-rules": ["unbash"],
  "approvals/messages": ["zod"],
  "targets/command": ["unbash", "yaml", "zod"],
  egress: ["jose", "zod"],
  "egress/grpc": ["@grpc/grpc-js", "zod"],
  "data-flow": ["zod"],
  "decision-points": [
    "@cedar-policy/cedar-wasm/web",
    "node_modules/@cedar-policy/cedar-wasm/web/cedar_wasm_bg.wasm",
    "zod",
  ],
  halts: ["zod"],
  quotas: ["zod"],
  "targets/grpc": ["@grpc/grpc-js", "protobufjs", "zod"],
  "targets/http": ["graphql", "yaml", "zod"],
  "targets/files": ["re2js", "yaml", "zod"],
  "targets/mcp": ["zod"],
  // Loaded only for a system of MariaDB.
  "targets/sql": ["mysql2", "zod"],
  pipeline: ["zod", "jose"],
  http: ["zod", "fastify", "prom-client"],
  workers: ["prom-client"],
  bundles: ["zod"],
  database: ["zod"],
  hub: ["zod"],
  mcp: ["zod"],
  "console/app": ["@preact/signals", "preact", "preact/hooks"],
  console: ["oauth4webapi", "zod"],
  audit: ["@platformatic/kafka", "zod"],
  // The schema that editors read is data, made by `bun run docs:configuration`.
  cli: ["commander", "fastify", "pino", "yaml", "zod", "docs/configuration.schema.json", "package.json"],
  "cli/development": ["@grpc/grpc-js", "@grpc/proto-loader", "@peculiar/x509", "reflect-metadata", "jose"],
  "runtime/config": ["yaml", "zod"],
  "runtime/manifests": ["yaml", "zod"],
  "runtime/telemetry": ["api", "core", "exporter-trace-otlp-http", "resources", "sdk-trace-base"].map(
    (name) => `@opentelemetry/${name}`,
  ),
  "runtime/inventory": ["zod"],
  "runtime/log": ["pino"],
};

/** The longest name in the table that the path begins with. */
function moduleOf(path: string): string {
  const [, first = "", second = ""] = path.split("/");
  return Object.hasOwn(MAY_IMPORT, `${first}/${second}`) ? `${first}/${second}` : first;
}

const rows = sources("src").flatMap((source) => importsOf(source).map((name) => [source.path, name] as const));

test("the import table is not empty", () => {
  expect(rows.length).toBeGreaterThan(200);
});

test("every import is allowed by the table", () => {
  const strangers = rows.filter(([path, name]) => {
    const own = moduleOf(path);
    if (name.startsWith("node:") || name.startsWith("bun:")) return false;
    // Data files of a package count as the package.
    const bare = name.replace(/^(protobufjs|zod)\/.*\.json$/, "$1");
    if (!name.startsWith("src/")) return !(PACKAGES[own] ?? []).includes(bare);
    return moduleOf(name) !== own && !(MAY_IMPORT[own] ?? []).includes(moduleOf(name));
  });
  expect(strangers).toEqual([]);
});

/** Everything that the service and the library load, whatever their configuration: without types and `import(…)`. */
function loadedAtStart(): ReadonlySet<string> {
  const files = new Map(
    sources("src").map((source) => {
      const code = source.code.replace(/^import type [^;]*;/gm, "").replace(/\bimport\s*\(/g, "load(");
      return [source.path, importsOf({ ...source, code })] as const;
    }),
  );
  const reached = new Set(["src/index.ts", "src/cli/service.ts"]);
  for (const file of reached) for (const name of files.get(file) ?? []) reached.add(name);
  return reached;
}

/** Of what is configured, this is loaded at the start: declarations, and what they check manifests with. */
const DECLARED: Readonly<Record<string, readonly string[]>> = {
  "src/targets/grpc/": ["kind.ts"],
  "src/targets/http/": [
    ...["graphql/manifest.ts", "graphql/settings.ts", "kind.ts", "manifest.ts", "path-segments.ts", "request.ts"],
  ],
  "src/targets/mcp/": ["kind.ts", "settings.ts"],
  "src/targets/sql/": [
    "engines.ts",
    "kind.ts",
    "manifest.ts",
    "mariadb/engine.ts",
    "plan.ts",
    "postgres/engine.ts",
    "server-settings.ts",
    "settings.ts",
    "sqlite/address.ts",
    "sqlite/engine.ts",
    "values.ts",
  ],
  "src/decision-points/": ["authzen/kind.ts", "cedar/kind.ts", "kinds.ts"],
  "src/data-flow/": [],
  "src/quotas/": [],
  "src/mcp/": [],
  "src/console/": [],
  "src/hub/": [],
  "src/core/json-schema/": [],
  "src/http/tenants.ts": [],
  "src/cli/tenants.ts": [],
};

test.each(Object.entries(DECLARED))("of %s, only %j is loaded without being configured", (folder, expected) => {
  const loaded = [...loadedAtStart()].filter((path) => path.startsWith(folder)).sort();
  expect(loaded).toEqual(expected.map((name) => `${folder}${name}`));
});

test("packages and clients of other systems are loaded only with a system to call", () => {
  const loaded = [...loadedAtStart()];
  expect(
    loaded.filter((name) =>
      /^(?:@grpc\/|protobufjs|@opentelemetry|@cedar-policy|@platformatic|graphql$|mysql2)/.test(name),
    ),
  ).toEqual([]);
  expect(
    loaded.filter((name) => /pipeline\/(?:identity\/roles|evaluation)|runtime\/composition\/roles/.test(name)),
  ).toEqual([]);
  expect(
    loaded.filter((name) =>
      /egress\/(?:rotating-client|resilience)|runtime\/manifests\/(?:data-only|editor)/.test(name),
    ),
  ).toEqual([]);
});

test("only `stc` imports the development stand, and only on demand", () => {
  const statics = sources("src").filter(
    ({ path, code }) => !path.startsWith("src/cli/development/") && /from "\.\.?\/development\//.test(code),
  );
  expect(statics.map(({ path }) => path)).toEqual([]);
});

test("manifests import the public package and zod, nothing else", () => {
  const strangers = sources("tools").flatMap((source) =>
    importsOf(source)
      .filter((name) => name !== "safe-tool-call" && name !== "zod" && !name.startsWith("tools/"))
      .map((name) => [source.path, name]),
  );
  expect(strangers).toEqual([]);
});
