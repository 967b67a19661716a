import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { differences, GOLDEN, publicSurface, type Surface } from "./surface.ts";

const CHANGED = `The public surface has changed. If this is meant:
1. Put a line for users into the "Unreleased" section of CHANGELOG.md.
2. For what is removed, renamed or narrowed, do what docs/compatibility.md demands: deprecate it first, and say under "What to do on upgrade" what to write instead.
3. Run \`bun run surface\` and commit tests/surface/golden.json.
`;

const golden = JSON.parse(readFileSync(GOLDEN, "utf8")) as Surface;

test("the public surface is the one that was agreed on", async () => {
  const found = differences(golden, await publicSurface());
  if (found.length > 0) throw new Error(`${CHANGED}\n${found.join("\n")}`);
});

test("every kind of surface is there", () => {
  const text = JSON.stringify(golden);
  for (const known of [
    ...[
      "SafeToolCall",
      "static create(options: SafeToolCallOptions",
      "defineTool",
      "SafeToolCallClient",
      "AsyncClient",
    ],
    ...["POST /call", "body application/json tool", "jwt.issuers[].audience", "APPROVAL_REQUIRED", "outputPolicy"],
    ...["stc audit verify", "--token-file", "tools/call", "find_tools", "argsHash", "readerGone", "approvals.claim"],
  ]) {
    expect(text).toContain(known);
  }
});

test("what is added, removed and changed is told apart", () => {
  const before: Surface = { commands: { "stc old": { "--flag": "flag" }, "stc same": {} }, refusals: { GONE: "403" } };
  const now: Surface = { commands: { "stc old": { "--flag": "<text>" }, "stc same": {} }, refusals: { NEW: "403" } };
  expect(differences(before, now)).toEqual([
    "changed: commands > stc old > --flag: flag => <text>",
    "removed: refusals > GONE: 403",
    "added: refusals > NEW: 403",
  ]);
});
