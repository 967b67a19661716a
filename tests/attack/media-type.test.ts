import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { defineTool } from "../../src/index.ts";
import { auditEntries } from "../support/audit-files.ts";
import { readConfig } from "../support/build.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { sendRaw } from "../support/raw-http.ts";

const nothing = defineTool({
  name: "case_nothing",
  description: "Does nothing",
  classification: "read",
  permissions: { required: ["case:run"] },
  input: z.strictObject({}),
  handler: () => ({}),
  output: z.strictObject({}),
  outputPolicy: {},
});

let folder: string;
let service: RunningService;
let authorization: string;

beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-attack-")));
  const issuers = new LiveIssuers();
  authorization = (await issuers.authorization({ kind: "good", sub: "agent-7", permissions: [] })) ?? "";
  const written = {
    server: { port: 0 },
    tools: [nothing],
    audit: { dir: join(folder, "audit") },
    jwt: { issuers: issuers.profiles() },
    log: { level: "silent" },
  };
  service = await startService(readConfig(written, { folder, environment: {}, origin: "test" }));
});

afterAll(async () => {
  await service.drain();
  rmSync(folder, { recursive: true, force: true });
});

// The HTTP library reads the media type before the route does, and answers by itself when it is none.
describe("an invalid media type is refused by the pipeline with an audit entry", () => {
  test.each(["", ";", ";;;", "json", "a b/c", "application/json, text/plain", "text/html\tx", "\u0080"])(
    "%j",
    async (mediaType) => {
      const before = auditEntries(join(folder, "audit")).length;
      const headers = ["Host: localhost", `Authorization: ${authorization}`, `Content-Type: ${mediaType}`];
      const body = Buffer.from('{"tool":"case_nothing","args":{}}');
      const answer = await sendRaw({ url: service.url, method: "POST", path: "/call", headers, body });
      expect(answer?.status).toBe(415);
      const added = auditEntries(join(folder, "audit")).slice(before);
      expect(added).toMatchObject([{ caller: { sub: "agent-7" }, error: { code: "UNSUPPORTED_MEDIA_TYPE" } }]);
    },
  );
});
