import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { callHeaders, emptyFolder, type IdentityStand, startIdentityService } from "../support/identity-service.ts";

const TOOLS = resolve(import.meta.dir, "../../tools/workspace");
const READER = { permissions: ["workspace:fs:read"] };
const STRANGER = { permissions: ["customer-data:read"] };

let stand: IdentityStand;
beforeAll(async () => {
  const folder = emptyFolder();
  mkdirSync(join(folder, "project"));
  stand = await startIdentityService({
    folder,
    rest: { tools: [join(TOOLS, "fs-read.ts"), join(TOOLS, "fs-write.ts")], workspace: { project: "./project" } },
  });
});
afterAll(() => stand.close());

test.each([
  ["its own name", "fs_read", READER, 200],
  ["the name with a dot that calls take", "fs.read", READER, 200],
  ["another's, in that spelling", "fs.write", READER, 404],
  ["a stranger, in either spelling", "fs.read", STRANGER, 404],
  ["a stranger", "fs_read", STRANGER, 404],
  ["another case", "FS.READ", READER, 404],
  ["a name of every object", "__proto__", READER, 404],
] as const)("GET /tools/:name, %s", async (_, name, claims, status) => {
  const answer = await fetch(`${stand.service.url}/tools/${name}`, { headers: await callHeaders(claims) });
  const body = (await answer.json()) as { readonly name?: string; readonly error?: { readonly code: string } };
  expect([answer.status, body.name, body.error?.code]).toEqual(
    status === 200 ? [200, "fs_read", undefined] : [404, undefined, "TOOL_NOT_FOUND"],
  );
});
