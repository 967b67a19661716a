import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROJECT } from "../support/world.ts";
import { type FleetServer, FleetWorld, type Measured, tableOf } from "./servers.ts";

/** Real servers, about 200 MB together. They are installed below `var/`, without running anything of theirs. */
const PACKAGES = {
  "@eslint/mcp": "0.3.13",
  "@modelcontextprotocol/server-everything": "2026.8.31",
  "@modelcontextprotocol/server-filesystem": "2026.8.31",
  "@modelcontextprotocol/server-memory": "2026.8.31",
  "@modelcontextprotocol/server-sequential-thinking": "2026.8.31",
  repomix: "1.14.0",
} as const;
const FOLDER = join(PROJECT, "var/fleet/servers");
const MODULES = join(FOLDER, "node_modules");
const MINUTES = 60_000;
const DATA = realpathSync(mkdtempSync(join(tmpdir(), "stc-fleet-")));
const measured: Measured[] = [];

beforeAll(async () => {
  mkdirSync(join(DATA, "memory"));
  mkdirSync(join(DATA, "code"));
  writeFileSync(join(DATA, "a.md"), "The launch is on Friday. Ask ann.lee@example.com.\n");
  writeFileSync(join(DATA, "people.csv"), "id,email\n1,ann.lee@example.com\n");
  writeFileSync(join(DATA, "code/bad.js"), "var x = 1;\n");
  writeFileSync(join(DATA, "code/eslint.config.cjs"), 'module.exports = [{ rules: { "no-unused-vars": "error" } }];\n');
  const wanted = JSON.stringify({ name: "servers", private: true, dependencies: PACKAGES });
  const ready = join(FOLDER, "ready");
  if (existsSync(ready) && readFileSync(ready, "utf8") === wanted) return;
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, "package.json"), wanted);
  const install = Bun.spawn([process.execPath, "install", "--ignore-scripts", "--silent"], {
    ...{ cwd: FOLDER, stdin: "ignore", stdout: "inherit", stderr: "inherit" },
  });
  expect(await install.exited).toBe(0);
  writeFileSync(ready, wanted);
}, 10 * MINUTES);

afterAll(() => {
  console.log(tableOf(measured));
  rmSync(DATA, { recursive: true, force: true });
});

interface Program {
  readonly args?: readonly string[];
  readonly [setting: string]: unknown;
}

function program(path: string, { args = [], ...settings }: Program = {}): FleetServer["entry"] {
  return {
    command: "node",
    args: [join(MODULES, path), ...args],
    reads: [MODULES, DATA],
    startSeconds: 60,
    ...settings,
  };
}

const ANNOTATED = ["--trust-annotations"];
const file = (name: string): string => join(DATA, name);
const ADDRESS = /ann\.lee@example\.com/;

/** Each server with the numbers of its tools that are offered, imported and loaded, called, and of use. */
const SERVERS: readonly (readonly [FleetServer, offered: number, called: number, useful: number])[] = [
  [
    {
      ...{ name: "everything", kind: "mcp", words: ANNOTATED },
      entry: program("@modelcontextprotocol/server-everything/dist/index.js"),
      calls: [
        ["echo", { message: "hello there" }, /hello there/],
        ["get_sum", { a: 2, b: 3 }, /5/],
        ["get_structured_content", { location: "Chicago" }, /temperature/],
        ["get_tiny_image", {}, /omitted: image/],
        ["get_annotated_message", { messageType: "success" }, /success/],
        ["get_resource_reference", { resourceType: "Text", resourceId: 1 }, /Resource 1/],
        // It can only be called as a task.
        ["simulate_research_query", { topic: "tea" }, /tea/],
      ],
    },
    ...([13, 7, 6] as const),
  ],
  [
    {
      ...{ name: "files", kind: "mcp", words: ANNOTATED, hidden: ADDRESS },
      entry: program("@modelcontextprotocol/server-filesystem/dist/index.js", { args: [DATA], writes: [DATA] }),
      calls: [
        ["read_text_file", { path: file("a.md") }, /launch is on Friday/],
        ["read_multiple_files", { paths: [file("a.md"), file("people.csv")] }, /Friday[\s\S]*id,email/],
        ["list_directory", { path: DATA }, /people\.csv/],
        ["directory_tree", { path: DATA }, /people\.csv/],
        ["search_files", { path: DATA, pattern: "*.csv" }, /people\.csv/],
        ["get_file_info", { path: file("a.md") }, /size/],
        ["list_allowed_directories", {}, /Allowed/],
        ["write_file", { path: file("new.txt"), content: "one two" }, /[Ss]uccess/],
        ["edit_file", { path: file("new.txt"), edits: [{ oldText: "one", newText: "three" }] }, /three/],
        ["move_file", { source: file("new.txt"), destination: file("old.txt") }, /[Ss]uccess/],
      ],
    },
    ...([14, 10, 10] as const),
  ],
  [
    {
      ...{ name: "memory", kind: "mcp", words: ANNOTATED, hidden: ADDRESS },
      entry: program("@modelcontextprotocol/server-memory/dist/index.js", {
        ...{ env: { MEMORY_FILE_PATH: file("memory/memory.jsonl") }, writes: [file("memory")] },
      }),
      calls: [
        [
          "create_entities",
          { entities: [{ name: "Atlas", entityType: "project", observations: ["ask ann.lee@example.com"] }] },
          /Atlas/,
        ],
        ["create_relations", { relations: [{ from: "Atlas", to: "Atlas", relationType: "is" }] }, /Atlas/],
        ["add_observations", { observations: [{ entityName: "Atlas", contents: ["ends in May"] }] }, /ends in May/],
        ["read_graph", {}, /Atlas.*ends in May/],
        ["search_nodes", { query: "Atlas" }, /project/],
        ["open_nodes", { names: ["Atlas"] }, /project/],
        ["delete_entities", { entityNames: ["Atlas"] }, /success/],
      ],
    },
    ...([9, 7, 7] as const),
  ],
  [
    {
      ...{ name: "thinking", kind: "mcp", words: ANNOTATED },
      entry: program("@modelcontextprotocol/server-sequential-thinking/dist/index.js"),
      calls: [
        [
          "sequentialthinking",
          { thought: "first", nextThoughtNeeded: true, thoughtNumber: 1, totalThoughts: 2 },
          /totalThoughts/,
        ],
      ],
    },
    ...([1, 1, 1] as const),
  ],
  [
    {
      ...{ name: "eslint", kind: "mcp", words: ["--read", "lint_files"] },
      entry: program("@eslint/mcp/src/mcp-cli.js"),
      calls: [["lint_files", { filePaths: [file("code/bad.js")] }, /no-unused-vars/]],
    },
    ...([1, 1, 1] as const),
  ],
  [
    {
      ...{ name: "repomix", kind: "mcp", words: ANNOTATED, hidden: ADDRESS },
      entry: program("repomix/bin/repomix.cjs", { args: ["--mcp"] }),
      calls: [
        ["pack_codebase", { directory: DATA }, /outputId/],
        ["file_system_read_file", { path: file("a.md") }, /Friday/],
        ["file_system_read_directory", { path: DATA }, /people\.csv/],
      ],
    },
    ...([8, 3, 3] as const),
  ],
];

test.each(SERVERS)(
  "$name: what is imported loads, and what its author accepts is of use",
  async (server, offered, called, useful) => {
    const world = new FleetWorld(server);
    try {
      const found = await world.measure();
      measured.push(found);
      const { problems, steps, ...counts } = found;
      expect({ ...counts, problems: problems.length }).toEqual({
        ...{ name: server.name, offered, imported: offered, loaded: offered, called, useful },
        problems: called - useful,
      });
    } finally {
      await world.end();
    }
  },
  5 * MINUTES,
);
