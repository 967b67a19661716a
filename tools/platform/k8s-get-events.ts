import { defineTool, type ToolConfig, truncateText } from "safe-tool-call";
import { z } from "zod";
import {
  CLUSTER_LIMITS,
  CLUSTER_TIMEOUT_MS,
  clusterEvents,
  KUBECTL_ENVIRONMENT,
  KUBECTL_OPTIONS,
  KUBECTL_REFUSALS,
  kubectlOptions,
} from "./kubernetes.ts";

const EVENTS_MAX = 200;
const MESSAGE_CHARACTERS_MAX = 1_024;

const Event = z.strictObject({
  time: z.string().describe("When it was last seen, ISO 8601"),
  type: z.string(),
  reason: z.string(),
  kind: z.string().describe("Of the object that it is about"),
  name: z.string(),
  count: z.int(),
  message: z.string(),
});

export const k8sGetEvents = defineTool((config: ToolConfig) => {
  const fixed = kubectlOptions(config);
  return {
    name: "k8s_get_events",
    description: "List the latest events of a known namespace, newest first.",
    classification: "read",
    permissions: { required: ["platform:k8s:read"] },
    input: z.strictObject({ namespace: config.oneOf("kubernetes", "namespaces") }),
    target: {
      system: "kubernetes",
      cli: {
        command: "kubectl",
        environment: KUBECTL_ENVIRONMENT,
        confinement: { network: "system" },
        stderrMeans: KUBECTL_REFUSALS,
        options: [...KUBECTL_OPTIONS, "--output="],
        argsBuilder: ({ namespace }) => ["get", ...fixed(namespace), "--output=json", "--", "events"],
        parse(stdout: string) {
          const events = clusterEvents(stdout);
          return {
            events: events
              .slice(0, EVENTS_MAX)
              .map((event) => ({ ...event, message: truncateText(event.message, MESSAGE_CHARACTERS_MAX) })),
            omittedEvents: Math.max(0, events.length - EVENTS_MAX),
          };
        },
      },
    },
    output: z.strictObject({
      events: z.array(Event).max(EVENTS_MAX),
      omittedEvents: z.int().describe("How many older ones there are"),
    }),
    outputPolicy: { "events.*": "allow", omittedEvents: "allow" },
    scan: { "events[].message": "balanced" },
    timeoutMs: CLUSTER_TIMEOUT_MS,
    limits: CLUSTER_LIMITS,
    idempotent: true,
    examples: {
      accepts: [{ namespace: config.sample("kubernetes", "namespaces") }],
      rejects: [{ namespace: "-A" }, { namespace: `${config.sample("kubernetes", "namespaces")},kube-system` }],
    },
  };
});
