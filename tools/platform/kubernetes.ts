import { parseJson, type ToolConfig } from "safe-tool-call";
import { z } from "zod";

/** Milliseconds for a question to the cluster, planning included. */
export const CLUSTER_TIMEOUT_MS = 30_000;

/** What kubectl may say before it is reduced to declared fields: objects are wordy. */
export const CLUSTER_LIMITS = { outputBytesMax: 16_777_216, concurrentCallsMax: 8 } as const;

export const KUBECTL_OPTIONS = ["--kubeconfig=", "--cache-dir=", "--request-timeout=", "--namespace="] as const;

/** Nobody's preferences or aliases; KUBECONFIG is not set, since every call names its file. */
export const KUBECTL_ENVIRONMENT = { KUBERC: "off" } as const;

/** What every call begins with: one cluster, one namespace, one deadline, and nothing left on the disk. */
export function kubectl(config: ToolConfig, namespace: string): readonly string[] {
  return [
    `--kubeconfig=${config.path("kubernetes", "kubeconfig")}`,
    "--cache-dir=/dev/null",
    `--request-timeout=${CLUSTER_TIMEOUT_MS / 1_000}s`,
    `--namespace=${namespace}`,
  ];
}

const Text = z.string().default("");

const Started = z.object({ reason: Text, startedAt: Text });

const ContainerStatus = z.object({
  name: z.string(),
  image: Text,
  ready: z.boolean().default(false),
  restartCount: z.int().default(0),
  state: z
    .object({
      running: Started.optional(),
      waiting: Started.optional(),
      terminated: Started.extend({ exitCode: z.int().default(0) }).optional(),
    })
    .default({}),
});

/** Of a pod, what is read at all: neither its environment nor its annotations nor its volumes. */
const PodList = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string() }),
      spec: z.object({ nodeName: Text }).default({ nodeName: "" }),
      status: z
        .object({ phase: Text, startTime: Text, containerStatuses: z.array(ContainerStatus).default([]) })
        .prefault({}),
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
  const { running, terminated, waiting } = state;
  const common = { name, image, ready, restarts: restartCount };
  if (running !== undefined) return { ...common, state: "running", reason: running.reason };
  if (terminated !== undefined) return { ...common, state: "terminated", reason: terminated.reason };
  return { ...common, state: "waiting", reason: waiting?.reason ?? "" };
}

const EventList = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ creationTimestamp: Text }).prefault({}),
      type: Text,
      reason: Text,
      message: Text,
      count: z.int().nullish(),
      firstTimestamp: z.string().nullish(),
      lastTimestamp: z.string().nullish(),
      eventTime: z.string().nullish(),
      involvedObject: z.object({ kind: Text, name: Text }).prefault({}),
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
      count: item.count ?? 1,
      message: item.message,
    }))
    .toSorted((a, b) => compareTimes(b.time, a.time));
}

/** Seconds and fractions of them are both written; a reader sorts by what they mean. */
function compareTimes(a: string, b: string): number {
  return (Date.parse(a) || 0) - (Date.parse(b) || 0);
}
