import { defineTool, parseUnifiedDiff, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
import { ARGOCD_CONFINEMENT, ARGOCD_LIMITS, ARGOCD_OPTIONS, ARGOCD_REFUSALS, argocdOptions } from "./argocd.ts";
import { type ResourceDiff, resourceDiff } from "./manifest-diff.ts";

const FILES_MAX = 200;
const LINES_MAX = 5_000;

/** By `argocd app diff`: 1 says that there are differences. */
const DIFFERENCES = 1;

const CommitId = z
  .string()
  .max(40)
  .regex(/^[0-9a-f]{40}$/, "must be a full commit id");

const Hunk = z.strictObject({
  oldStart: z.int(),
  oldLines: z.int(),
  newStart: z.int(),
  newLines: z.int(),
  lines: z.array(z.string()),
});

const File = z.strictObject({
  oldPath: z.string().describe("Of the live resource, as group/kind/namespace/name; /dev/null when there is none"),
  newPath: z.string().describe("Of the desired resource; /dev/null when there is none"),
  status: z.enum(["added", "deleted", "modified"]),
  hunks: z.array(Hunk),
  withheldLines: z.int().describe("Lines that are not shown: environment, annotations, secrets, config maps"),
});

export const argocdDiff = defineTool((config: ToolConfig) => {
  const fixed = argocdOptions(config);
  const revision = config.has("argocd", "revisions")
    ? z.union([CommitId, config.oneOf("argocd", "revisions")])
    : CommitId;
  return {
    name: "argocd_diff",
    description:
      "Show the difference between the live and the desired state of a known Argo CD application. Values of environment, annotations, secrets and config maps are withheld.",
    classification: "read",
    permissions: { required: ["platform:argocd:read"] },
    input: z.strictObject({
      app: config.oneOf("argocd", "applications"),
      revision: revision.optional().describe("What to compare with, when it is not the application's own target"),
    }),
    inputPolicy: { revision: "allow" },
    target: {
      system: "argocd",
      cli: {
        command: "argocd",
        confinement: ARGOCD_CONFINEMENT,
        // The whole resource as context: see resourceDiff.
        environment: { KUBECTL_EXTERNAL_DIFF: "diff -U 1000000" },
        options: [...ARGOCD_OPTIONS, "--revision="],
        argsBuilder: ({ app, revision: wanted }) => [
          ...["app", "diff", ...fixed],
          ...(wanted === undefined ? [] : [`--revision=${wanted}`]),
          ...["--", app],
        ],
        exitCodes: { [DIFFERENCES]: "OK" },
        stderrMeans: ARGOCD_REFUSALS,
        parse: differences,
      },
    },
    output: z.strictObject({
      differs: z.boolean(),
      files: z.array(File).max(FILES_MAX),
      droppedLines: z.int().describe("Lines that did not fit or could not be read"),
    }),
    outputPolicy: { differs: "allow", "files.*": "allow", droppedLines: "allow" },
    timeoutMs: 60_000,
    limits: ARGOCD_LIMITS,
    idempotent: true,
    examples: {
      accepts: [
        { app: config.sample("argocd", "applications") },
        { app: config.sample("argocd", "applications"), revision: "8f2c1d0e9b7a6f5e4d3c2b1a0f9e8d7c6b5a4f3e" },
      ],
      rejects: [
        { app: config.sample("argocd", "applications"), revision: "--local=/etc" },
        { app: config.sample("argocd", "applications"), revision: "refs/pull/1/head^{}" },
        { app: `other/${config.sample("argocd", "applications")}` },
      ],
    },
  };
});

function differences(stdout: string, _input: unknown, exitCode: number) {
  const { files, rest } = parseUnifiedDiff(stdout);
  const between = [...files.map(({ preamble }) => preamble), rest];
  const resources = [
    ...files.map((file) => resourceDiff(headingOf(file.preamble), file)),
    ...between.flatMap((lines) => bareHeadings(lines, lines === rest)).map((name) => resourceDiff(name, { hunks: [] })),
  ];
  const unread = between.flat().filter((line) => !isKnown(line)).length;
  if (exitCode === DIFFERENCES && resources.length === 0 && unread === 0) {
    throw new Error("argocd says that there are differences and shows none");
  }
  const shown = fit(resources);
  return {
    differs: exitCode === DIFFERENCES || resources.length > 0,
    files: shown.files,
    droppedLines: unread + shown.droppedLines,
  };
}

/** `===== apps/Deployment payments/api ======` */
const HEADING = /^===== ([^ ]*) ([^ ]*) =+$/;

function isKnown(line: string): boolean {
  return line.trim() === "" || HEADING.test(line) || line.startsWith("diff -U ");
}

function headingOf(preamble: readonly string[]): string {
  // Without a heading nobody knows what it is, and it may be a secret.
  return headings(preamble).at(-1) ?? "unknown/Secret/unknown/unknown";
}

/** Resources of which nothing is shown: the heading before a file is that file's own. */
function bareHeadings(lines: readonly string[], isRest: boolean): readonly string[] {
  return isRest ? headings(lines) : headings(lines).slice(0, -1);
}

function headings(lines: readonly string[]): readonly string[] {
  return lines.flatMap((line) => {
    const [, kind, name] = HEADING.exec(line) ?? [];
    return kind === undefined ? [] : [`${kind}/${name}`];
  });
}

function fit(resources: readonly ResourceDiff[]) {
  const files: ResourceDiff[] = [];
  let [linesLeft, droppedLines] = [LINES_MAX, 0];
  for (const resource of resources) {
    const lines = resource.hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0);
    if (files.length === FILES_MAX) droppedLines += lines;
    else if (lines > linesLeft) {
      files.push({ ...resource, hunks: [] });
      droppedLines += lines;
    } else {
      files.push(resource);
      linesLeft -= lines;
    }
  }
  return { files, droppedLines };
}
