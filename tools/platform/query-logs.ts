import { defineTool, fitLines, freeText, parseJsonLines, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
import { listOf, part, text } from "./json-fields.ts";
import { LOG_BUDGET } from "./log-lines.ts";
import { parseLogQuery, writeLogQuery } from "./logql.ts";
import { DnsSubdomain } from "./names.ts";

const LINES_MAX = 1_000;
const PHRASE_CHARACTERS_MAX = 256;
const SINCE_MINUTES_MIN = 5;
const SINCE_MINUTES_MAX = 1_440;

/** Labels that an answer shows. */
const LABELS = ["namespace", "app", "pod", "container"];

const Since = z
  .string()
  .max(5)
  .regex(/^[1-9][0-9]{0,3}[mh]$/, "must be minutes or hours: 30m, 6h")
  .refine(isBounded, "must be from 5m to 24h")
  .describe("How far back to look: 5m to 24h");

function isBounded(since: string): boolean {
  const minutes = Number(since.slice(0, -1)) * (since.endsWith("h") ? 60 : 1);
  return minutes >= SINCE_MINUTES_MIN && minutes <= SINCE_MINUTES_MAX;
}

const Line = z.strictObject({
  timestamp: z.string(),
  line: z.string(),
  app: z.string(),
  pod: z.string(),
  container: z.string(),
});

export const queryLogs = defineTool((config: ToolConfig) => {
  const fixed = lokiOptions(config);
  return {
    name: "query_logs",
    description:
      "Search the logs of a known namespace, newest line first: of one app, or those that contain a text, or all of them.",
    classification: "read",
    permissions: { required: ["platform:logs:read"] },
    input: z.strictObject({
      namespace: config.oneOf("loki", "namespaces"),
      app: DnsSubdomain.optional().describe("The value of the label `app`"),
      contains: freeText(PHRASE_CHARACTERS_MAX)
        .min(1)
        .optional()
        .describe("A text that lines must contain, exactly as it stands; no pattern"),
      since: Since.default("1h"),
      limit: z.int().min(1).max(LINES_MAX).default(100).describe("How many lines at most"),
    }),
    inputPolicy: { app: "allow", since: "allow" },
    target: {
      system: "loki",
      cli: {
        command: "logcli",
        environment: lokiEnvironment(config),
        confinement: { network: "system" },
        options: [
          ...["--addr=", "--org-id=", "--bearer-token-file=", "--ca-cert=", "--quiet", "--timezone=", "--output="],
          ...["--include-label=", "--since=", "--limit="],
        ],
        argsBuilder: ({ namespace, app, contains, since, limit }) => [
          "query",
          ...fixed,
          `--since=${since}`,
          `--limit=${limit}`,
          "--",
          logQuery(namespace, { app, contains }),
        ],
        parse: (stdout: string, input: unknown) => logLines(stdout, namespaceOf(input)),
      },
    },
    output: z.strictObject({
      lines: z.array(Line).max(LINES_MAX),
      droppedLines: z.int().describe("How many lines could not be read or did not fit"),
    }),
    outputPolicy: { "lines.*": "allow", droppedLines: "allow" },
    scan: { "lines[].line": "balanced" },
    limits: { outputBytesMax: 16_777_216, concurrentCallsMax: 8 },
    idempotent: true,
    examples: {
      accepts: [
        { namespace: config.sample("loki", "namespaces") },
        { namespace: config.sample("loki", "namespaces"), app: "web", contains: 'status="500" {x} # y', since: "24h" },
      ],
      rejects: [
        { namespace: config.sample("loki", "namespaces"), app: 'web"} # ' },
        { namespace: config.sample("loki", "namespaces"), since: "25h" },
        { namespace: `${config.sample("loki", "namespaces")}|kube-system` },
      ],
    },
  };
});

function lokiOptions(config: ToolConfig): readonly string[] {
  return [
    `--addr=${config.setting("loki", "address")}`,
    ...(config.has("loki", "tenant") ? [`--org-id=${config.setting("loki", "tenant")}`] : []),
    ...(config.has("loki", "bearerTokenFile") ? [`--bearer-token-file=${config.path("loki", "bearerTokenFile")}`] : []),
    ...(config.has("loki", "rootCert") ? [`--ca-cert=${config.path("loki", "rootCert")}`] : []),
    ...["--quiet", "--timezone=UTC", "--output=jsonl"],
    ...LABELS.map((label) => `--include-label=${label}`),
  ];
}

/** By its manual the environment outranks the options, so that both say the same. */
function lokiEnvironment(config: ToolConfig): Readonly<Record<string, string>> {
  return {
    LOKI_ADDR: config.setting("loki", "address"),
    ...(config.has("loki", "tenant") && { LOKI_ORG_ID: config.setting("loki", "tenant") }),
  };
}

interface Wanted {
  readonly app: string | undefined;
  readonly contains: string | undefined;
}

/** Written here, the pinned namespace first, and read again: what runs selects this namespace and nothing beside it. */
function logQuery(namespace: string, { app, contains }: Wanted): string {
  const query = {
    matchers: [
      { label: "namespace", operator: "=", value: namespace } as const,
      ...(app === undefined ? [] : [{ label: "app", operator: "=", value: app } as const]),
    ],
    contains: contains === undefined ? [] : [contains],
  };
  const written = writeLogQuery(query);
  if (JSON.stringify(parseLogQuery(written)) !== JSON.stringify(query)) {
    throw new Error("the query does not say what was asked");
  }
  return written;
}

const Entries = listOf(
  z.object({
    timestamp: text,
    line: z.string(),
    labels: part({ namespace: text, app: text, pod: text, container: text }),
  }),
);

function logLines(stdout: string, namespace: string) {
  const { values, unreadableLines } = parseJsonLines(stdout);
  const sound = values.flatMap((value) => Entries.safeParse([value]).data ?? []);
  const own = sound.filter(({ labels }) => labels.namespace === "" || labels.namespace === namespace);
  const { lines } = fitLines(
    own.map(({ line }) => line),
    { ...LOG_BUDGET, linesMax: LINES_MAX, keep: "first" },
  );
  return {
    lines: own.slice(0, lines.length).map(({ timestamp, labels: { app, pod, container } }, at) => ({
      ...{ timestamp, line: lines[at] ?? "" },
      ...{ app, pod, container },
    })),
    droppedLines: unreadableLines + values.length - lines.length,
  };
}

function namespaceOf(input: unknown): string {
  return z.looseObject({ namespace: z.string() }).parse(input).namespace;
}
