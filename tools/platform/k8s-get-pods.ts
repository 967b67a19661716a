import { defineTool, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
import {
  CLUSTER_LIMITS,
  CLUSTER_TIMEOUT_MS,
  KUBECTL_ENVIRONMENT,
  KUBECTL_OPTIONS,
  KUBECTL_REFUSALS,
  kubectlOptions,
  podStates,
} from "./kubernetes.ts";
import { LabelSelector } from "./label-selector.ts";

const PODS_MAX = 500;

const Container = z.strictObject({
  name: z.string(),
  image: z.string(),
  ready: z.boolean(),
  restarts: z.int(),
  state: z.enum(["running", "waiting", "terminated"]),
  reason: z.string().describe("Why it is in this state, such as CrashLoopBackOff; may be empty"),
});

const Pod = z.strictObject({
  name: z.string(),
  phase: z.string(),
  ready: z.boolean().describe("Whether all of its containers are ready"),
  restarts: z.int(),
  node: z.string(),
  startTime: z.string(),
  containers: z.array(Container),
});

export const k8sGetPods = defineTool((config: ToolConfig) => {
  const fixed = kubectlOptions(config);
  return {
    name: "k8s_get_pods",
    description: "List the pods of a known namespace with their phase, readiness, restarts, node and containers.",
    classification: "read",
    permissions: { required: ["platform:k8s:read"] },
    input: z.strictObject({
      namespace: config.oneOf("kubernetes", "namespaces"),
      labelSelector: LabelSelector.optional(),
    }),
    inputPolicy: { labelSelector: "allow" },
    target: {
      system: "kubernetes",
      cli: {
        command: "kubectl",
        environment: KUBECTL_ENVIRONMENT,
        confinement: { network: "system" },
        stderrMeans: KUBECTL_REFUSALS,
        options: [...KUBECTL_OPTIONS, "--output=", "--selector="],
        argsBuilder: ({ namespace, labelSelector }) => [
          "get",
          ...fixed(namespace),
          "--output=json",
          ...(labelSelector === undefined ? [] : [`--selector=${labelSelector}`]),
          "--",
          "pods",
        ],
        parse(stdout: string) {
          const pods = podStates(stdout);
          return { pods: pods.slice(0, PODS_MAX), omittedPods: Math.max(0, pods.length - PODS_MAX) };
        },
      },
    },
    output: z.strictObject({
      pods: z.array(Pod).max(PODS_MAX),
      omittedPods: z.int().describe("How many more there are; select by labels to see them"),
    }),
    outputPolicy: { "pods.*": "allow", omittedPods: "allow" },
    timeoutMs: CLUSTER_TIMEOUT_MS,
    limits: CLUSTER_LIMITS,
    idempotent: true,
    examples: {
      accepts: [
        { namespace: config.sample("kubernetes", "namespaces") },
        { namespace: config.sample("kubernetes", "namespaces"), labelSelector: "app=web,tier!=db" },
        { namespace: config.sample("kubernetes", "namespaces"), labelSelector: "env in (a,b),!canary" },
      ],
      rejects: [
        { namespace: "--all-namespaces" },
        { namespace: "" },
        { namespace: config.sample("kubernetes", "namespaces"), labelSelector: "app=web --all-namespaces" },
      ],
    },
  };
});
