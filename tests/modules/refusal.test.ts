import { expect, test } from "bun:test";
import { join } from "node:path";
import { entryLine } from "../support/audit-lines.ts";
import { environmentOf, run, STC } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

/** One row adds a refusal everywhere: HTTP, OpenAPI, MCP, the audit's filters, dry runs, replay and the clients' types. */

const PRELOAD = `--preload=${join(import.meta.dir, "toy-refusal.ts")}`;

const DERIVED = `
  const { FILTER_ROWS } = await import("./src/core/audit-fields.ts");
  const { Refusal } = await import("./src/core/errors.ts");
  const { refusalAnswer } = await import("./src/http/answers.ts");
  const { openApiDocument } = await import("./src/http/openapi.ts");
  const { toolResult } = await import("./src/mcp/replies.ts");
  const { verdictOf } = await import("./src/pipeline/dry-run.ts");
  const { readRecorded } = await import("./src/runtime/replay/recorded.ts");
  const { LANGUAGES, namedSchemas } = await import("./tests/clients/schema-types.ts");
  const { ENDPOINTS } = await import("./tests/http/server-parts.ts");
  const refusal = new Refusal("EMBARGOED", "Not to this country.");
  const { status, body } = refusalAnswer(refusal);
  const document = openApiDocument(ENDPOINTS.map((endpoint) => ({ path: endpoint.path, endpoint })));
  const { content } = toolResult({ ...JSON.parse(body), traceId: "1" }, { era: "modern" });
  console.log(JSON.stringify({
    http: [status, JSON.parse(body)],
    openApi: document.paths["/call"].post.responses["451"].description,
    clients: LANGUAGES.map(({ write }) => write(namedSchemas(document)).split('"EMBARGOED"').length - 1),
    mcp: content[0].text,
    filter: FILTER_ROWS.find(({ param }) => param === "code").values.includes("EMBARGOED"),
    dryRun: verdictOf({ dryRun: true }, refusal),
    replay: readRecorded(JSON.parse(process.env.LINE)).then,
  }));`;

test("a row of the table is known to every listener, the audit, dry runs, replay and both clients", async () => {
  const LINE = entryLine("2026-02-16T10:00:00.000Z", {
    ...{ decision: "DENIED", approval: undefined, error: { code: "EMBARGOED" } as never },
    denial: { reason: "no", stage: "PERMISSION" },
  });
  const { out, err } = await run([STC[0], PRELOAD, "-e", DERIVED], { cwd: PROJECT, env: environmentOf({ LINE }) });
  expect(err).toBe("");
  expect(JSON.parse(out)).toEqual({
    http: [
      451,
      {
        status: "denied",
        error: { code: "EMBARGOED", stage: "PERMISSION", message: "Not to this country.", retryable: false },
      },
    ],
    openApi: "EMBARGOED",
    clients: [1, 1],
    mcp: "EMBARGOED: Not to this country. The same call would be refused again: change it or go on without it.",
    filter: true,
    dryRun: "deny",
    replay: "EMBARGOED",
  });
});
