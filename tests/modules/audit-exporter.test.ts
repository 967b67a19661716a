import { afterAll, afterEach, expect, test } from "bun:test";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { AuditExporter } from "../../src/audit/export/receiver.ts";
import { type BuildModules, MODULES } from "../../src/modules.ts";
import { readConfig } from "../support/build.ts";
import { until } from "../support/until.ts";
import { ModuleWorld } from "./module-world.ts";

const settings = z.strictObject({ file: z.string().min(1) });

/** A kind of export of a build: it appends the lines to a file. */
const toFile: AuditExporter<"file", typeof settings> = {
  type: "file",
  settings,
  open: ({ file }, { path }) => ({
    async deliver(lines) {
      appendFileSync(path(file), lines.map(({ line }) => `${line}\n`).join(""));
      return { kind: "taken", rejected: 0 };
    },
  }),
};

const BUILD: BuildModules = { ...MODULES, auditExporters: [...MODULES.auditExporters, toFile] };
const world = new ModuleWorld();
afterEach(() => world.stop());
afterAll(() => world.end());

test("a kind of export that one line of the build registers receives the audit's lines", async () => {
  await world.start(BUILD, { audit: { dir: "./audit", export: [{ type: "file", file: "./copy.jsonl" }] } });
  const { body } = await world.call("pay", { amount: 1 });
  const copy = join(world.folder, "copy.jsonl");
  const isCopied = (): boolean => existsSync(copy) && readFileSync(copy, "utf8").includes(body.traceId);
  await until("the line", () => (isCopied() ? true : undefined));
  expect(world.entry(body.traceId)?.decision).toBe("ALLOWED");
});

test.each([
  [[{ type: "file" }], "audit.export[0].file: is missing"],
  [[{ type: "file", file: "x", url: "https://a.example" }], "audit.export[0].url"],
  [[{ type: "otlp", url: "https://a.example", file: "x" }], "audit.export[0].file"],
  [[{ type: "carbon" }], "audit.export[0].type: must be one of otlp, loki, postgres, clickhouse, kafka, s3, file"],
])("%j is refused with the setting that is wrong", (entries, message) => {
  const written = world.sections({ audit: { dir: "./audit", export: entries } });
  const read = () => readConfig(written, { folder: "/x", environment: {}, origin: "c" }, BUILD);
  expect(read).toThrow(message);
});
