import { z } from "zod";

const text = z.string().min(1);
const LAUNCHERS_MAX = 64;

const MEMORY_BYTES_MIN = 16_777_216;
const MEMORY_BYTES_MAX = 1_099_511_627_776;

/** Programs that manifests may name. */
export const commands = z
  .strictObject({
    /** Base commands that manifests may name: plain names are looked up on PATH once, at start; absolute paths are taken as they are. */
    allowed: z.array(text).default([]),
    /**
     * `require` (for production): a tool whose command the kernel does not hold is not registered. `prefer`: it runs without
     * where it must, and so does a manifest of your own that declares no profile; every plan says so. `off`: nothing is held.
     */
    confinement: z.enum(["require", "prefer", "off"]).default("prefer"),
    /** Processes that wait, started ahead, to become a command: 30 MB each. */
    launchers: z.int().min(0).max(LAUNCHERS_MAX).default(2),
    /** Lets the tool `bash` run as the service itself does, where it cannot be confined: nothing but people's judgement then stands between it and the machine. */
    unconfinedBash: z.boolean().default(false),
    /**
     * What all processes of one command may use together; a command that uses more is ended. Default: half of what the smallest
     * memory cgroup around the service leaves beside it, at most 2147483648.
     */
    memoryBytesMax: z.int().min(MEMORY_BYTES_MIN).max(MEMORY_BYTES_MAX).optional(),
  })
  .prefault({});

const KILOBYTE = 1_024;
const MEGABYTE = 1_048_576;
const GIGABYTE = 1_073_741_824;

const bytes = (fallback: number, max: number) => z.int().min(1).max(max).default(fallback);
const readBytes = z.int().min(1).max(MEGABYTE);
/** A plan holds the content, with room for what JSON escapes. */
const writeBytes = z.int().min(1).max(MEGABYTE);
const state = z.string().min(1).max(128);

/** A folder's name of one run: nothing that could lead elsewhere. */
const runId = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, "must be a plain name of letters, digits, dot, dash, underscore");

/** What `@state/workflow.md` must be, and how it may change. */
const workflow = z
  .strictObject({
    /** The key of its frontmatter that holds the state. */
    stateKey: text.default("currentNodeId"),
    /** JSON Schema of the whole frontmatter. */
    schema: z.record(z.string(), z.unknown()).optional(),
    /** From each state to those that may follow it. Without it no state may change. */
    transitions: z.record(state, z.array(state)).optional(),
    /** States in which a workflow may begin; any of `transitions` when left out. */
    entry: z.array(state).optional(),
  })
  .prefault({});

/** Other limits for one caller, which is the pair of issuer and subject. */
const agent = z.strictObject({
  issuer: text,
  subject: text,
  maxReadBytes: readBytes.optional(),
  maxWriteBytes: writeBytes.optional(),
});

const search = z
  .strictObject({
    filesMax: bytes(50_000, 1_000_000),
    bytesMax: bytes(GIGABYTE / 4, 16 * GIGABYTE),
    fileBytesMax: bytes(4 * MEGABYTE, 64 * MEGABYTE),
    timeMs: bytes(10_000, 60_000),
  })
  .prefault({});

/** Where agents' files lie. */
export const workspace = z
  .strictObject({
    /** `@project`: where commands work and files are read and written; a directory that holds nothing of the service's own. */
    project: text.optional(),
    /** `@pkg`: files that are only read. */
    pkg: text.optional(),
    /** `@state`: this folder, or with a `runId` its `runs/<runId>/state`; made when it is missing. */
    state: text.optional(),
    runId: runId.optional(),
    /** Bytes of content that one read answers. */
    maxReadBytes: readBytes.default(50 * KILOBYTE),
    /** Bytes of a file that one write may leave. */
    maxWriteBytes: writeBytes.default(MEGABYTE),
    /** A larger file is neither read nor replaced. */
    fileBytesMax: bytes(64 * MEGABYTE, GIGABYTE),
    agents: z.array(agent).default([]),
    search,
    workflow,
  })
  .prefault({});
