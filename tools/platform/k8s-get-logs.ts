import { defineTool, fitLines, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
import {
  CLUSTER_TIMEOUT_MS,
  KUBECTL_ENVIRONMENT,
  KUBECTL_OPTIONS,
  KUBECTL_REFUSALS,
  kubectlOptions,
} from "./kubernetes.ts";
import { LOG_BUDGET } from "./log-lines.ts";
import { DnsLabel, DnsSubdomain } from "./names.ts";

const LINES_MAX = 1_000;
/** Bytes that the cluster sends at most; it cuts off what is newer. */
const LOG_BYTES_MAX = 2_097_152;

export const k8sGetLogs = defineTool((config: ToolConfig) => {
  const fixed = kubectlOptions(config);
  return {
    name: "k8s_get_logs",
    description: "Show the latest lines that a pod of a known namespace has written, oldest first.",
    classification: "read",
    permissions: { required: ["platform:k8s:read"] },
    input: z.strictObject({
      namespace: config.oneOf("kubernetes", "namespaces"),
      pod: DnsSubdomain.describe("The pod's name, as k8s_get_pods shows it"),
      container: DnsLabel.optional().describe("One of its containers; needed when it has several"),
      lines: z.int().min(1).max(LINES_MAX).default(200).describe("How many lines, from the end"),
    }),
    inputPolicy: { pod: "allow", container: "allow" },
    target: {
      system: "kubernetes",
      cli: {
        command: "kubectl",
        environment: KUBECTL_ENVIRONMENT,
        confinement: { network: "system" },
        stderrMeans: KUBECTL_REFUSALS,
        options: [...KUBECTL_OPTIONS, "--tail=", "--limit-bytes=", "--container="],
        argsBuilder: ({ namespace, pod, container, lines }) => [
          "logs",
          ...fixed(namespace),
          `--tail=${lines}`,
          `--limit-bytes=${LOG_BYTES_MAX}`,
          ...(container === undefined ? [] : [`--container=${container}`]),
          "--",
          pod,
        ],
        parse: logLines,
      },
    },
    output: z.strictObject({
      lines: z.array(z.string()).max(LINES_MAX),
      droppedLines: z.int().describe("How many of the oldest lines did not fit"),
      truncated: z.boolean().describe("Whether the newest text was cut off; ask for fewer lines to see it"),
    }),
    outputPolicy: { "lines[]": "allow", droppedLines: "allow", truncated: "allow" },
    scan: { "lines[]": "balanced" },
    timeoutMs: CLUSTER_TIMEOUT_MS,
    limits: { outputBytesMax: LOG_BYTES_MAX * 2 },
    idempotent: true,
    examples: {
      accepts: [
        { namespace: config.sample("kubernetes", "namespaces"), pod: "web-7d4b9c6f5-x2x9q" },
        { namespace: config.sample("kubernetes", "namespaces"), pod: "db-0", container: "postgres", lines: 50 },
      ],
      rejects: [
        { namespace: config.sample("kubernetes", "namespaces"), pod: "deployment/web" },
        { namespace: config.sample("kubernetes", "namespaces"), pod: "--all-containers" },
        { namespace: "kube-system", pod: "../secrets" },
      ],
    },
  };
});

function logLines(stdout: string) {
  const lines = stdout.split("\n");
  // A whole log ends with a line end; one that does not was cut off in the middle of a line.
  const isWhole = lines.pop() === "" && Buffer.byteLength(stdout) < LOG_BYTES_MAX;
  const fitted = fitLines(isWhole ? lines : stdout.split("\n"), { ...LOG_BUDGET, linesMax: LINES_MAX, keep: "last" });
  return { ...fitted, truncated: !isWhole && stdout !== "" };
}
