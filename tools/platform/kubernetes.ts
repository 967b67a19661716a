import { parseJson, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
import { count, flag, listOf, part, text } from "./json-fields.ts";

/** Milliseconds for a question to the cluster, planning included. */
export const CLUSTER_TIMEOUT_MS = 30_000;

/** What kubectl may say before it is reduced to declared fields: objects are wordy. */
export const CLUSTER_LIMITS = { outputBytesMax: 16_777_216, concurrentCallsMax: 8 } as const;

/** The options of every call. */
export const KUBECTL_OPTIONS = ["--kubeconfig=", "--cache-dir=", "--request-timeout=", "--namespace="] as const;

/** kubectl exits with 1 whatever it met; its first words tell a server's own no from everything else. */
export const KUBECTL_REFUSALS = [
  { starts: "Error from server (NotFound): ", means: "NOT_FOUND" },
  { starts: "error: error from server (NotFound): ", means: "NOT_FOUND" },
  { starts: "Error from server (BadRequest): ", means: "INVALID_ARGUMENT" },
  { starts: "error: error from server (BadRequest): ", means: "INVALID_ARGUMENT" },
] as const;

/** Nobody's preferences or aliases; KUBECONFIG is not set, since every call names its file. */
export const KUBECTL_ENVIRONMENT = { KUBERC: "off" } as const;

/** What every call begins with: one cluster, one namespace, one deadline, and nothing left on the disk. */
export function kubectlOptions(config: ToolConfig): (namespace: string) => readonly string[] {
  const kubeconfig = config.path("kubernetes", "kubeconfig");
  return (namespace) => [
    `--kubeconfig=${kubeconfig}`,
    "--cache-dir=/dev/null",
    `--request-timeout=${CLUSTER_TIMEOUT_MS / 1_000}s`,
    `--namespace=${namespace}`,
  ];
}

const ContainerStatus = z.object({
  name: z.string(),
  image: text,
  ready: flag,
  restartCount: count,
  state: part({
    running: z.object({}).nullish(),
    waiting: z.object({ reason: text }).nullish(),
    terminated: z.object({ reason: text }).nullish(),
  }),
});

/** Of a pod, what is read at all: neither its environment nor its annotations nor its volumes. */
const PodList = z.object({
  items: listOf(
    z.object({
      metadata: z.object({ name: z.string() }),
      spec: part({ nodeName: text }),
      status: part({ phase: text, startTime: text, containerStatuses: listOf(ContainerStatus) }),
    }),
  ),
});

export interface PodState {
  readonly name: string;
  readonly phase: string;
  readonly ready: boolean;
  readonly restarts: number;
  readonly node: string;
  readonly startTime: string;
  readonly containers: readonly ContainerState[];
}

interface ContainerState {
  readonly name: string;
  readonly image: string;
  readonly ready: boolean;
  readonly restarts: number;
  readonly state: "running" | "waiting" | "terminated";
  readonly reason: string;
}

/** The pods of a `PodList` in JSON. */
export function podStates(stdout: string): readonly PodState[] {
  return PodList.parse(parseJson(stdout)).items.map(({ metadata, spec, status }) => {
    const containers = status.containerStatuses.map(containerState);
    return {
      name: metadata.name,
      phase: status.phase,
      ready: containers.length > 0 && containers.every(({ ready }) => ready),
      restarts: containers.reduce((sum, { restarts }) => sum + restarts, 0),
      node: spec.nodeName,
      startTime: status.startTime,
      containers,
    };
  });
}

function containerState({ name, image, ready, restartCount, state }: z.output<typeof ContainerStatus>): ContainerState {
  const known = { name, image, ready, restarts: restartCount };
  if (state.running) return { ...known, state: "running", reason: "" };
  if (state.terminated) return { ...known, state: "terminated", reason: state.terminated.reason };
  return { ...known, state: "waiting", reason: state.waiting?.reason ?? "" };
}

const EventList = z.object({
  items: listOf(
    z.object({
      metadata: part({ creationTimestamp: text }),
      type: text,
      reason: text,
      message: text,
      count,
      firstTimestamp: text,
      lastTimestamp: text,
      eventTime: text,
      involvedObject: part({ kind: text, name: text }),
    }),
  ),
});

export interface ClusterEvent {
  readonly time: string;
  readonly type: string;
  readonly reason: string;
  readonly kind: string;
  readonly name: string;
  readonly count: number;
  readonly message: string;
}

/** The events of an `EventList` in JSON, newest first. */
export function clusterEvents(stdout: string): readonly ClusterEvent[] {
  return EventList.parse(parseJson(stdout))
    .items.map((item) => ({
      time: item.lastTimestamp || item.eventTime || item.firstTimestamp || item.metadata.creationTimestamp,
      type: item.type,
      reason: item.reason,
      kind: item.involvedObject.kind,
      name: item.involvedObject.name,
      count: Math.max(1, item.count),
      message: item.message,
    }))
    .toSorted((a, b) => compareTimes(b.time, a.time));
}

/** Seconds and fractions of them are both written; a reader sorts by what they mean. */
function compareTimes(a: string, b: string): number {
  return (Date.parse(a) || 0) - (Date.parse(b) || 0);
}
