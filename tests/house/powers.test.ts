import { expect, test } from "bun:test";
import { sources } from "./sources.ts";

interface Power {
  readonly name: string;
  readonly sign: RegExp;
  /** Files, or folders that end in `/`. */
  readonly holders: readonly string[];
}

/** What can reach out of the process, and the only places that may. */
const POWERS: readonly Power[] = [
  {
    name: "spawning",
    sign: /Bun\.spawn|child_process|\bnode:worker_threads|new Worker\(/,
    holders: ["src/handlers/cli/child.ts", "src/handlers/cli/confinement/launchers.ts"],
  },
  {
    name: "sockets",
    sign: /from "node:(net|tls|http|https|http2|dgram|dns)"|\bfetch\(|= fetch\b|\?\? fetch\b|Bun\.(serve|connect|listen)|from "(fastify|@grpc\/grpc-js)"/,
    holders: [
      "src/handlers/grpc/",
      "src/server/",
      "src/stc/client.ts",
      "src/stc/health.ts",
      "src/proxy/tokens/remote-keys.ts",
      "src/audit/export/sender.ts",
      "src/approvals/notify/address.ts",
      "src/approvals/notify/sender.ts",
      "src/telemetry/bounded-agent.ts",
      "src/dev/",
    ],
  },
  {
    name: "files",
    sign: /from "node:fs(\/promises)?"|Bun\.(file|write)\(/,
    holders: [
      ...[
        "src/handlers/cli/",
        "src/handlers/fs/",
        "src/handlers/grpc/contract/proto-files.ts",
        "src/audit/",
        "src/approvals/store/postgres.ts",
        "src/approvals/store/sqlite.ts",
        "src/stc/",
        "src/dev/",
      ],
      ...[
        "src/config/file.ts",
        "src/config/plain-file.ts",
        "src/manifests/sources.ts",
        "src/reload/prints.ts",
        "src/manifests/imports.ts",
        "src/manifests/loader.ts",
        "src/own-code.ts",
        "src/wiring/files.ts",
        "src/wiring/places.ts",
        "src/wiring/revocation-file.ts",
        "src/wiring/watched-files.ts",
        "src/server/connections/listening-socket.ts",
        "src/wiring/workspace.ts",
        "src/platform/files.ts",
        "src/wiring/confinement.ts",
        "src/log/sink.ts",
      ],
    ],
  },
  {
    name: "databases",
    sign: /new Bun\.SQL\b|bun:sqlite/,
    holders: ["src/approvals/store/postgres.ts", "src/approvals/store/sqlite.ts", "src/audit/query/index-file.ts"],
  },
  {
    name: "foreign functions",
    sign: /bun:ffi/,
    holders: [
      "src/audit/journal/c-library.ts",
      "src/handlers/fs/c-library.ts",
      "src/handlers/cli/confinement/c-library.ts",
      "src/handlers/cli/confinement/call-list.ts",
    ],
  },
  {
    name: "environment",
    sign: /process\.env|Bun\.env/,
    holders: ["src/config/file.ts", "src/telemetry/hidden-variables.ts"],
  },
  {
    name: "clock",
    sign: /Date\.now|performance\.now|new Date\(\)|hrtime/,
    holders: [
      ...["src/wiring.ts", "src/stc/configuration.ts", "src/stc/token.ts", "src/stc/audit/place.ts"],
      "src/stc/approvals/watch.ts",
    ],
  },
  {
    name: "randomness",
    sign: /Math\.random|randomUUID|randomBytes|getRandomValues|generateKeyPair/,
    holders: [
      "src/wiring.ts",
      "src/wiring/approvals.ts",
      "src/wiring/webhooks.ts",
      "src/dev/",
      "src/stc/token.ts",
      "src/stc/audit/keys.ts",
    ],
  },
  { name: "code from text", sign: /\beval\(|new Function\(|node:vm/, holders: [] },
  { name: "the console", sign: /console\./, holders: [] },
];

function mayHold({ holders }: Power, path: string): boolean {
  return holders.some((holder) => (holder.endsWith("/") ? path.startsWith(holder) : path === holder));
}

test.each(POWERS.map((power) => [power.name, power] as const))("%s has its place", (_name, power) => {
  const users = sources("src").filter(({ code }) => power.sign.test(code));
  expect(users.filter(({ path }) => !mayHold(power, path)).map(({ path }) => path)).toEqual([]);
});

test.each(POWERS.filter(({ holders }) => holders.length > 0).map((power) => [power.name, power] as const))(
  "every place that may hold %s does",
  (_name, power) => {
    const users = sources("src").filter(({ code }) => power.sign.test(code));
    const idle = power.holders.filter(
      (holder) => !users.some(({ path }) => mayHold({ ...power, holders: [holder] }, path)),
    );
    expect(idle).toEqual([]);
  },
);

test("manifests hold no power at all", () => {
  const users = sources("tools").filter(({ code }) => POWERS.some(({ sign }) => sign.test(code)));
  expect(users.map(({ path }) => path)).toEqual([]);
});
