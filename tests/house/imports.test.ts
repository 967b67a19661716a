import { expect, test } from "bun:test";
import { importsOf, sources } from "./sources.ts";

/** Who may import what, inside `src`. A room is a folder, or a file that stands in `src` itself. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  core: [],
  redaction: ["core"],
  approvals: ["core"],
  audit: ["core"],
  "handlers/cli": ["core"],
  "handlers/grpc": ["core"],
  "handlers/fs": ["core"],
  "handlers/inline": ["core"],
  messages: ["core", "redaction"],
  telemetry: ["core"],
  log: ["core", "redaction", "audit"],
  proxy: ["core", "approvals", "audit", "redaction"],
  reload: ["core", "audit", "config.ts", "config", "manifests", "proxy", "wiring"],
  server: ["core", "proxy", "approvals", "audit", "reload"],
  stc: ["core", "redaction", "proxy", "audit", "config.ts", "config", "wiring.ts", "main.ts", "own-code.ts", "dev"],
  dev: ["core", "config.ts"],
  "config.ts": ["core", "config"],
  config: ["core", "config.ts"],
  manifests: ["core", "config.ts", "config", "index.ts"],
  platform: ["core", "config.ts", "config"],
  wiring: [
    ...["core", "config.ts", "config", "manifests", "own-code.ts", "platform"],
    ...["proxy", "approvals", "audit", "handlers/cli", "handlers/fs", "handlers/grpc", "handlers/inline"],
    ...["redaction", "telemetry", "reload"],
  ],
  "wiring.ts": [
    ...["core", "config.ts", "manifests", "platform", "wiring", "proxy", "approvals", "audit", "redaction"],
    ...["handlers/cli", "handlers/fs", "handlers/grpc", "handlers/inline", "reload"],
  ],
  "binary.ts": ["stc", "handlers/cli"],
  "safe-tool-call.ts": ["core", "config.ts", "config", "approvals", "proxy", "redaction", "wiring.ts"],
  "index.ts": ["core", "approvals", "handlers/cli", "messages", "safe-tool-call.ts"],
  "main.ts": ["core", "config.ts", "log", "proxy", "server", "wiring.ts"],
};

/** Packages by room; Node's own modules are judged by the powers. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  core: ["zod"],
  redaction: ["libphonenumber-js/metadata.max.json"],
  approvals: ["jose", "unbash", "zod"],
  "handlers/cli": ["unbash", "zod"],
  "handlers/grpc": ["@grpc/grpc-js", "protobufjs", "cockatiel", "jose"],
  "handlers/fs": ["re2js", "yaml", "zod"],
  messages: ["zod"],
  telemetry: ["api", "core", "exporter-trace-otlp-http", "resources", "sdk-trace-base"].map(
    (name) => `@opentelemetry/${name}`,
  ),
  proxy: ["zod", "jose"],
  server: ["zod", "fastify", "prom-client"],
  stc: ["commander", "zod"],
  dev: ["@grpc/grpc-js", "@grpc/proto-loader", "@peculiar/x509", "reflect-metadata", "jose"],
  "config.ts": ["zod"],
  config: ["yaml", "zod"],
  manifests: ["zod"],
  platform: ["yaml"],
  log: ["pino"],
  "main.ts": ["fastify", "pino"],
};

function roomOf(path: string): string {
  const [, first = "", second = ""] = path.split("/");
  return first === "handlers" ? `${first}/${second}` : first;
}

const rows = sources("src").flatMap((source) => importsOf(source).map((name) => [source.path, name] as const));

test("the table was compared with something", () => {
  expect(rows.length).toBeGreaterThan(200);
});

test("every import is in the table", () => {
  const strangers = rows.filter(([path, name]) => {
    const room = roomOf(path);
    if (name.startsWith("node:") || name.startsWith("bun:")) return false;
    // Data files of a package count as the package.
    const bare = name.replace(/^(protobufjs)\/.*\.json$/, "$1");
    if (!name.startsWith("src/")) return !(PACKAGES[room] ?? []).includes(bare);
    return roomOf(name) !== room && !(MAY_IMPORT[room] ?? []).includes(roomOf(name));
  });
  expect(strangers).toEqual([]);
});

test("development is reached by `stc` alone, and only when it is asked for", () => {
  const statics = sources("src").filter(
    ({ path, code }) => !path.startsWith("src/dev/") && /from "\.\.?\/dev\//.test(code),
  );
  expect(statics.map(({ path }) => path)).toEqual([]);
});

test("manifests see the public door and zod, nothing else", () => {
  const strangers = sources("tools").flatMap((source) =>
    importsOf(source)
      .filter((name) => name !== "safe-tool-call" && name !== "zod" && !name.startsWith("tools/"))
      .map((name) => [source.path, name]),
  );
  expect(strangers).toEqual([]);
});
