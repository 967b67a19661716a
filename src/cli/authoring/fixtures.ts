import { z } from "zod";
import { VERDICTS } from "../../core/call-result.ts";
import { FIELD_RULES } from "../../core/manifest/faults.ts";
import { type Json, MODES } from "../../core/types.ts";
import { configMessage, configProblems, fieldOf } from "../../runtime/config/problems.ts";
import { readPlainYaml } from "../../runtime/manifests/data-only.ts";
import { jsonSchemaOf } from "../../runtime/manifests/editor-schema.ts";

/** The file `<manifest>.test.yaml`: calls and answers of one tool, with what must become of them. */

const CASES_MAX = 1_000;
const NAME_CHARACTERS_MAX = 200;
const PATHS_MAX = 1_000;

const caseName = z.string().min(1).max(NAME_CHARACTERS_MAX).optional().describe("What the case shows, for its reader.");
const json = z.json();
const table = z.record(z.string(), json);
const paths = z.array(z.string().min(1)).max(PATHS_MAX).optional();

const refused = z.strictObject({
  code: z
    .string()
    .regex(/^[A-Z][A-Z_]{2,63}$/, "must be a code such as INVALID_INPUT")
    .optional()
    .describe("Code of the refusal, such as `INVALID_INPUT` or `PERMISSION_DENIED`."),
  field: z.string().optional().describe("A field that the refusal must name, such as `orderId` or `items[0].name`."),
});

const call = z
  .strictObject({
    name: caseName,
    args: table.default({}).describe("The arguments, as an agent sends them."),
    permissions: z
      .array(z.string().min(1))
      .optional()
      .describe("Permissions of the caller. Default: all that the tool requires for these arguments."),
    mode: z.enum(MODES).optional().describe("Mode of the session. Default: the configuration's."),
    input: table.optional().describe("What the schema makes of the arguments, with its defaults."),
    plan: table
      .optional()
      .describe(
        "Members that the plan must have: `argv` of a command, `method`, `url` and `body` of an HTTP request, …",
      ),
    lookups: z
      .record(z.string(), z.string())
      .optional()
      .describe("Answers of a command's lookups, which are not made here, by their names."),
    verdict: z.enum(VERDICTS).optional().describe("Whether the call runs, a person is asked, or it is refused."),
    refused: refused.optional().describe("The refusal that the call must get. Without it, the call must be accepted."),
  })
  .refine(({ refused: refusal, plan, input }) => refusal === undefined || (plan === undefined && input === undefined), {
    message: "a refused call has neither plan nor input",
    path: ["refused"],
  });

const answer = z
  .strictObject({
    name: caseName,
    answer: json
      .optional()
      .describe("What the target answers: the input of the output schema, such as a gRPC message or a parsed stdout."),
    stdout: z
      .string()
      .optional()
      .describe("Instead of `answer`: the text that a command writes, which its `parse` reads."),
    args: table.optional().describe("With `stdout`: arguments of the call, where `parse` reads them."),
    released: json.optional().describe("What the agent gets, exactly."),
    removed: paths.describe("Paths that the agent must not get: every one of them, and no others."),
    masked: paths.describe("Paths whose values the agent gets masked: every one of them, and no others."),
    refused: refused.optional().describe("The refusal instead of an answer, such as `INVALID_OUTPUT` and its field."),
  })
  .refine(({ answer: given, stdout }) => (given === undefined) !== (stdout === undefined), {
    message: "needs answer, or stdout of a command, and not both",
    path: ["answer"],
  })
  .refine(
    ({ refused: refusal, released, removed, masked }) =>
      refusal === undefined || (released === undefined && removed === undefined && masked === undefined),
    {
      message: "an answer that is refused releases nothing",
      path: ["refused"],
    },
  );

const fixtures = z.strictObject({
  tool: z.string().regex(FIELD_RULES.name).describe("Name of the tool."),
  calls: z.array(call).max(CASES_MAX).default([]).describe("Calls that agents could make. Nothing is called."),
  answers: z.array(answer).max(CASES_MAX).default([]).describe("Answers that the target could give."),
});

type Fixtures = z.output<typeof fixtures>;
export type CallFixture = Fixtures["calls"][number];
export type AnswerFixture = Fixtures["answers"][number];

/** Fixtures, with the function that finds the line of a field; or what is wrong with them, each with its line. */
type FixturesRead =
  | { readonly fixtures: Fixtures; readonly lineOf: (field: string) => number | undefined }
  | { readonly problems: readonly string[] };

/** Texts of calls and answers are data. */
const DATA_FIELDS = ["calls", "answers"];

/** Reads a file of fixtures. */
export function readFixtures(source: string): FixturesRead {
  const read = readPlainYaml(source, DATA_FIELDS);
  if ("problems" in read) return read;
  const lineOf = (field: string): number | undefined => read.lineOf({ field, message: "" });
  const parsed = fixtures.safeParse(read.value, { error: configMessage });
  if (parsed.success) return { fixtures: parsed.data, lineOf };
  const problems = configProblems(parsed.error.issues).flatMap(({ path, message }) => {
    const field = fieldOf(path);
    const line = lineOf(field);
    return `${line === undefined ? "" : `line ${line}: `}${field}: ${message}`;
  });
  return { problems };
}

/** Returns the JSON Schema (draft 7) of fixtures, for editors. */
export function fixturesSchema(): Json {
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Fixtures of a tool of Safe Tool Call",
    ...jsonSchemaOf(fixtures),
  };
}
