import { z } from "zod";
import { count, text } from "./values.ts";

const LAUNCHERS_MAX = 64;

const MEMORY_BYTES_MIN = 16_777_216;
const MEMORY_BYTES_MAX = 1_099_511_627_776;

/** The section `commands`: programs that manifests may name, and how they run. */
export const commands = z
  .strictObject({
    /**
     * Base commands that manifests may name. Plain names are looked up on PATH once, at start; absolute paths are used as they
     * are.
     */
    allowed: z.array(text).default([]),
    /**
     * How commands are confined by the kernel. `require` (for production): a tool whose command cannot be confined is not
     * registered. `prefer`: it runs unconfined, as does a manifest of your own that declares no profile, and every plan says so.
     * `off`: nothing is confined.
     */
    confinement: z.enum(["require", "prefer", "off"]).default("prefer"),
    /** Number of processes started in advance that wait to become a command; each takes 30 MB. */
    launchers: z.int().min(0).max(LAUNCHERS_MAX).default(2),
    /**
     * Whether the tool `bash` may run with the rights of the service where it cannot be confined. Then only people's judgement
     * protects the machine from it.
     */
    unconfinedBash: z.boolean().default(false),
    /**
     * Maximum memory of all processes of one command together; a command that uses more is ended. Default: half of what the
     * service leaves free in the smallest memory cgroup around it, at most 2147483648.
     */
    memoryBytesMax: z.int().min(MEMORY_BYTES_MIN).max(MEMORY_BYTES_MAX).optional(),
  })
  .prefault({});

const KILOBYTE = 1_024;
const MEGABYTE = 1_048_576;
const GIGABYTE = 1_073_741_824;

const readBytes = z.int().min(1).max(MEGABYTE);
/** Limit of 1 MiB: a plan holds the content, with room for JSON escapes. */
const writeBytes = z.int().min(1).max(MEGABYTE);
const state = z.string().min(1).max(128);

/** Name of one run's folder, in characters that cannot lead to another path. */
const runId = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, "must be a plain name of letters, digits, dot, dash, underscore");

/** Rules for `@state/workflow.md`: its content, and how its state may change. */
const workflow = z
  .strictObject({
    /** Key of the frontmatter of `@state/workflow.md` that holds the state. */
    stateKey: text.default("currentNodeId"),
    /** JSON Schema of the whole frontmatter of `@state/workflow.md`. */
    schema: z.record(z.string(), z.unknown()).optional(),
    /** States that may follow each state. Without it, the state cannot change once it is set. */
    transitions: z.record(state, z.array(state)).optional(),
    /** States in which a workflow may start; any state of `transitions` when left out. */
    entry: z.array(state).optional(),
  })
  .prefault({});

/** Limits for one caller (issuer and subject) in place of the general ones. */
const agent = z.strictObject({
  issuer: text,
  subject: text,
  maxReadBytes: readBytes.optional(),
  maxWriteBytes: writeBytes.optional(),
});

const search = z
  .strictObject({
    filesMax: count(50_000, 1_000_000),
    bytesMax: count(GIGABYTE / 4, 16 * GIGABYTE),
    fileBytesMax: count(4 * MEGABYTE, 64 * MEGABYTE),
    timeMs: count(10_000, 60_000),
  })
  .prefault({});

/** The section `workspace`: where agents' files are, and how large they may be. */
export const workspace = z
  .strictObject({
    /** Directory `@project`, where commands work and files are read and written. It must hold none of the service's own files. */
    project: text.optional(),
    /** Directory `@pkg`, whose files can only be read. */
    pkg: text.optional(),
    /** Directory `@state`; with a `runId`, its subdirectory `runs/<runId>/state`. It is created when missing. */
    state: text.optional(),
    runId: runId.optional(),
    /** Maximum content that one read returns. */
    maxReadBytes: readBytes.default(50 * KILOBYTE),
    /** Maximum size of a file after a write. */
    maxWriteBytes: writeBytes.default(MEGABYTE),
    /** Maximum size of a file that can be read or replaced. */
    fileBytesMax: count(64 * MEGABYTE, GIGABYTE),
    agents: z.array(agent).default([]),
    search,
    workflow,
  })
  .prefault({});
