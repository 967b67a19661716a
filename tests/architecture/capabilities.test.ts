import { expect, test } from "bun:test";
import { sources } from "./sources.ts";

interface Capability {
  readonly name: string;
  readonly sign: RegExp;
  /** Files, or folders that end in `/`. */
  readonly holders: readonly string[];
}

/** What can reach out of the process, and the only places that may. */
const CAPABILITIES: readonly Capability[] = [
  {
    name: "spawning",
    sign: /Bun\.spawn|child_process|\bnode:worker_threads|new Worker\(/,
    holders: [
      "src/targets/command/child.ts",
      "src/targets/command/confinement/launchers.ts",
      "src/targets/command/confinement/server-process.ts",
      "src/workers/worker.ts",
    ],
  },
  {
    name: "sockets",
    sign: /from "node:(net|tls|http|https|http2|dgram|dns)"|\bfetch\(|= fetch\b|\?\? fetch\b|Bun\.(serve|connect|listen)|from "(fastify|@grpc\/grpc-js)"/,
    holders: [
      "src/targets/grpc/",
      "src/http/",
      "src/cli/connection.ts",
      "src/cli/health.ts",
      "src/cli/doctor/own-port.ts",
      "src/egress/",
      "src/hub/server/",
      "src/runtime/composition/hub-probe.ts",
      "src/cli/development/",
      "src/console/app/api.ts",
      "src/bundles/server.ts",
    ],
  },
  {
    name: "outgoing HTTP",
    sign: /import (?!type)\{[^}]*\b(?:request|get|Agent)\b[^}]*\} from "node:https?"|\bfetch\(|[=?] fetch\b|Bun\.connect\b/,
    // The files of `stc`, and the console's page in the browser, call only the service itself.
    holders: [
      "src/egress/dial.ts",
      "src/egress/library-agent.ts",
      "src/cli/connection.ts",
      "src/cli/health.ts",
      "src/console/app/api.ts",
    ],
  },
  {
    name: "files",
    sign: /from "node:fs(\/promises)?"|Bun\.(file|write)\(/,
    holders: [
      ...[
        "src/targets/command/",
        "src/targets/files/",
        "src/targets/grpc/contract/proto-files.ts",
        "src/targets/grpc/kind.ts",
        "src/audit/",
        "src/database/postgres.ts",
        "src/database/sqlite.ts",
        "src/halts/file.ts",
        "src/targets/sql/sqlite/files.ts",
        "src/decision-points/cedar/engine.ts",
        "src/cli/",
        "src/cli/development/",
        "src/bundles/build.ts",
        "src/bundles/server.ts",
        "src/bundles/store.ts",
      ],
      ...[
        "src/runtime/config/file.ts",
        "src/runtime/config/plain-file.ts",
        "src/runtime/config/own-paths.ts",
        "src/runtime/config/watched-files.ts",
        "src/runtime/manifests/sources.ts",
        "src/runtime/reload/fingerprints.ts",
        "src/runtime/manifests/loader.ts",
        "src/runtime/own-code.ts",
        "src/runtime/composition/listeners.ts",
        "src/runtime/composition/audit.ts",
        "src/runtime/composition/identity.ts",
        "src/http/connections/listening.ts",
        "src/console/page.ts",
        "src/runtime/log/sink.ts",
      ],
    ],
  },
  {
    name: "databases",
    sign: /new Bun\.SQL\b|bun:sqlite/,
    holders: [
      ...["src/database/postgres.ts", "src/database/sqlite-connection.ts", "src/audit/query/line-index.ts"],
      ...["src/targets/sql/sqlite/child/", "src/targets/sql/sqlite/sqlite-child.ts"],
      "src/cli/development/shop.ts",
    ],
  },
  {
    name: "foreign functions",
    sign: /bun:ffi/,
    holders: [
      "src/native/c-library.ts",
      "src/audit/journal/file-operations.ts",
      "src/targets/files/c-library.ts",
      "src/targets/command/confinement/c-library.ts",
      "src/targets/command/confinement/call-list.ts",
    ],
  },
  {
    name: "environment",
    sign: /process\.env|Bun\.env/,
    holders: ["src/runtime/config/environment.ts", "src/runtime/telemetry/span-sender.ts"],
  },
  {
    name: "clock",
    sign: /Date\.now|performance\.now|new Date\(\)|hrtime/,
    holders: [
      ...[
        "src/runtime/composition/wiring.ts",
        "src/cli/bundle.ts",
        "src/cli/configuration.ts",
        "src/cli/token.ts",
        "src/cli/audit/directory.ts",
        "src/cli/doctor/deployment.ts",
      ],
      ...["src/cli/approvals/watch.ts", "src/cli/replay.ts", "src/cli/authoring/try.ts"],
      "src/console/app/",
    ],
  },
  {
    name: "randomness",
    sign: /Math\.random|randomUUID|randomBytes|getRandomValues|generateKeyPair/,
    holders: [
      "src/runtime/composition/wiring.ts",
      "src/runtime/composition/approvals.ts",
      "src/runtime/composition/hub-member.ts",
      "src/cli/development/",
      "src/cli/token.ts",
      "src/audit/chain/signing-key.ts",
      "src/cli/authoring/try.ts",
      "src/console/app/api.ts",
      "src/console/sealing.ts",
    ],
  },
  {
    // It keeps the last of duplicate keys and rounds numbers. What others send is read by `core/strict-json.ts`.
    name: "JSON.parse",
    sign: /JSON\.parse\(/,
    holders: [
      "src/core/strict-json.ts",
      // Copies of values that this codebase has written as text.
      ...[
        "src/approvals/callback.ts",
        "src/approvals/grants.ts",
        "src/cli/authoring/try.ts",
        "src/core/tool-formats.ts",
      ],
      ...["src/mcp/tools.ts", "src/runtime/inventory/inventory.ts", "src/runtime/manifests/sources.ts"],
      "src/targets/files/frontmatter.ts",
      // The claims of a token that is not verified yet: they decide only who verifies it.
      "src/pipeline/identity/tenants.ts",
      // Rows, files and messages that this codebase writes itself.
      ...["src/approvals/notify/report.ts", "src/approvals/store/tasks.ts", "src/database/rows.ts"],
      "src/hub/wire.ts",
      "src/targets/sql/postgres/description.ts",
      ...["src/targets/sql/sqlite/processes.ts", "src/targets/sql/sqlite/sqlite-child.ts"],
      "src/targets/sql/postgres/catalog.ts",
      ...["src/audit/export/positions.ts", "src/audit/journal/saved-position.ts", "src/audit/unauthenticated.ts"],
      ...["src/audit/configurations.ts", "src/runtime/composition/configuration-history.ts"],
      ...["src/audit/query/line-rows.ts", "src/audit/query/params.ts", "src/audit/query/view.ts"],
      ...[
        "src/cli/development/keys.ts",
        "src/console/oidc.ts",
        "src/console/sessions.ts",
        "src/mcp/protocol.ts",
        "src/halts/file.ts",
      ],
      "src/targets/command/confinement/",
      // Answers of the service to its own clients, which show them or pass them on as they are.
      ...["src/cli/approvals/answers.ts", "src/cli/client.ts", "src/cli/mcp.ts", "src/console/app/"],
      // Answers of collectors: counts for the log.
      ...["src/audit/export/collectors.ts", "src/runtime/telemetry/span-sender.ts"],
      // Rows of the audit's own tables, whose integers are texts.
      "src/audit/store/clickhouse-client.ts",
      // Sent as typed: the service reads it strictly.
      "src/cli/call.ts",
      // Finds the files that a document names, also in one that is refused later.
      "src/runtime/config/own-paths.ts",
      // Counts keys: claims may have numbers of any size.
      "src/pipeline/identity/reader.ts",
    ],
  },
  { name: "code from text", sign: /\beval\(|new Function\(|node:vm/, holders: [] },
  {
    name: "the console",
    sign: /(?<!\.)\bconsole\.(?:log|info|warn|error|debug|trace|table|dir|assert)\b/,
    holders: [],
  },
];

function mayHold({ holders }: Capability, path: string): boolean {
  return holders.some((holder) => (holder.endsWith("/") ? path.startsWith(holder) : path === holder));
}

test.each(CAPABILITIES.map((capability) => [capability.name, capability] as const))(
  "only the listed files use %s",
  (_name, capability) => {
    const users = sources("src").filter(({ code }) => capability.sign.test(code));
    expect(users.filter(({ path }) => !mayHold(capability, path)).map(({ path }) => path)).toEqual([]);
  },
);

test.each(
  CAPABILITIES.filter(({ holders }) => holders.length > 0).map((capability) => [capability.name, capability] as const),
)("every file listed for %s uses it", (_name, capability) => {
  const users = sources("src").filter(({ code }) => capability.sign.test(code));
  const idle = capability.holders.filter(
    (holder) => !users.some(({ path }) => mayHold({ ...capability, holders: [holder] }, path)),
  );
  expect(idle).toEqual([]);
});

test("manifests use no capability at all", () => {
  const users = sources("tools").filter(({ code }) => CAPABILITIES.some(({ sign }) => sign.test(code)));
  expect(users.map(({ path }) => path)).toEqual([]);
});
