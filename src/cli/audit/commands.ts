import { DURATION_HINT, TIME_HINT } from "../../audit/query/time-range.ts";
import { FILTER_ROWS, type FilterParam } from "../../core/audit-fields.ts";
import {
  argument,
  type CommandOption,
  command,
  defaulted,
  flag,
  group,
  JSON_FLAG,
  option,
  remaining,
  repeated,
  required,
  tenantName,
  text,
  wholeNumber,
} from "../command.ts";
import { wrongUsage } from "../output.ts";

const TIME = text("time");
const tenant = option(tenantName, "only the audit of this tenant, which is below that of its service");

/** The options have the names of the HTTP parameters. */
const FILTERS = {
  from: option(TIME, TIME_HINT),
  to: option(TIME, "the same; calls at that time and later are left out"),
  text: option(text("text"), "anywhere in the line, in upper or lower case"),
  ...(Object.fromEntries(FILTER_ROWS.map(({ param, help }) => [param, option(text("value"), help)])) as Readonly<
    Record<FilterParam, CommandOption<string | undefined>>
  >),
  tenant,
};

const dir = option(text("directory"), "audit directory (default: STC_AUDIT_DIR, else ./audit-logs)");
const dirs = repeated(
  text("directory"),
  "audit directory (default: STC_AUDIT_DIR, else ./audit-logs); repeated: those of all replicas, as one log",
);
const json = flag("print the lines unchanged, or the result as JSON");
const key = repeated(
  text("file"),
  "public key of the checkpoints: a PEM file or a verifier key; may be given several times",
);

const fromStore = option(
  text("url"),
  "ask the database that exporters fill, instead of files: its URL, or a file that holds the URL",
);

const withoutIndex = flag("read every line instead of using index.sqlite, and write nothing");

const SEARCH = {
  options: { dir, ...FILTERS, json },
  exits: { 0: "found", 1: "nothing found", 66: "the directory or a file cannot be read" },
};

async function directories(dirs: readonly string[], of: string | undefined): Promise<readonly string[]> {
  return (await import("./directory.ts")).directoriesOf(dirs, of);
}

async function directory(dir: string | undefined, of: string | undefined): Promise<string | undefined> {
  return (await import("./directory.ts")).directoryOf(dir, of);
}

async function guarded(work: () => Promise<void>): Promise<void> {
  const { guarded: guard } = await import("./directory.ts");
  await guard(work);
}

const calls = () => import("./calls.ts");
const store = () => import("./store.ts");
const evidence = () => import("./evidence.ts");

export const commands = [
  group("audit", "Read and verify the audit"),
  command({
    name: "audit query",
    summary: "List the calls that match the filters, newest first",
    uses: SEARCH,
    options: {
      dir: dirs,
      order: defaulted(text("order"), { help: "newest or oldest first", fallback: "newest" }),
      limit: option(text("count"), "maximum number of calls (default: 50)"),
      cursor: option(text("cursor"), "continue an earlier query with the same filters"),
      withoutIndex,
      fromStore,
    },
    run: (_, { dir, json, withoutIndex, fromStore, ...params }) =>
      guarded(async () =>
        fromStore === undefined
          ? (await calls()).auditQuery({ dirs: await directories(dir, params.tenant), json, withoutIndex, params })
          : (await store()).queryStore(fromStore, { dirs: dir, tenant: params.tenant, json, params }),
      ),
  }),
  command({
    name: "audit tail",
    summary: "Print the latest calls",
    uses: SEARCH,
    options: {
      lines: defaulted(wholeNumber, { help: "how many", fallback: 20, short: "n" }),
      follow: flag("also print new calls as they come", { short: "f" }),
    },
    exits: { 0: "done" },
    run: (_, { dir, json, lines, follow, ...filters }) =>
      guarded(async () =>
        (await calls()).auditTail({ dir: await directory(dir, filters.tenant), json, lines, follow, filters }),
      ),
  }),
  command({
    name: "audit show",
    summary: "Show a call with its intent and its approvals",
    arguments: { id: argument(text("id"), "trace id, W3C trace id or id of an approval request") },
    options: { dir: dirs, tenant, json, withoutIndex, fromStore },
    exits: SEARCH.exits,
    run: ({ id }, { dir, tenant, json, withoutIndex, fromStore }) =>
      guarded(async () =>
        fromStore === undefined
          ? (await calls()).auditShow(id, { dirs: await directories(dir, tenant), json, withoutIndex })
          : (await store()).showFromStore(fromStore, id, { dirs: dir, tenant, json }),
      ),
  }),
  command({
    name: "audit stats",
    summary: "Count calls and refusals, and measure how long they took",
    uses: SEARCH,
    options: {
      compare: option(text("duration"), `compare with the same range this long before: ${DURATION_HINT}`),
      withoutIndex,
      fromStore,
    },
    run: (_, { dir, json, withoutIndex, fromStore, ...params }) =>
      guarded(async () =>
        fromStore === undefined
          ? (await import("./stats.ts")).auditStats({
              dir: await directory(dir, params.tenant),
              json,
              withoutIndex,
              params,
            })
          : (await store()).statsFromStore(fromStore, {
              dirs: dir === undefined ? [] : [dir],
              tenant: params.tenant,
              json,
              params,
            }),
      ),
  }),
  command({
    name: "audit export",
    summary: "Write all calls that match the filters, oldest first",
    options: {
      dir: dirs,
      format: required(text("format"), "jsonl, csv or ocsf"),
      ...FILTERS,
      output: option(text("file"), "a new file (default: standard output)", { short: "o" }),
      fromStore,
    },
    exits: { ...SEARCH.exits, 73: "the output cannot be created or written" },
    run: (_, { dir, format, output, fromStore, ...params }) =>
      guarded(async () =>
        fromStore === undefined
          ? (await import("./export.ts")).auditExport({
              dirs: await directories(dir, params.tenant),
              format,
              output,
              params,
            })
          : (await store()).exportFromStore(fromStore, { dirs: dir, tenant: params.tenant, format, output, params }),
      ),
  }),
  command({
    name: "audit exports",
    summary: "Say which lines the exporters have not sent, also of a replica that is gone",
    options: {
      dir: dirs,
      tenant,
      exporter: repeated(text("name"), "also an exporter that has sent nothing yet; repeated: several"),
      json: JSON_FLAG,
    },
    exits: {
      0: "everything was sent",
      1: "lines were not sent, or no exporter is known",
      66: "the directory or a file cannot be read",
    },
    run: (_, { dir, tenant, exporter, json }) =>
      guarded(async () =>
        (await import("./export.ts")).auditExports({ dirs: await directories(dir, tenant), exporters: exporter, json }),
      ),
  }),
  command({
    name: "audit import",
    summary:
      "Put lines into the database of a fleet: those of directories, or those that an exporter has sent elsewhere",
    arguments: {
      files: remaining(
        text("file"),
        "OTLP logs as JSON, or dead letters, one JSON text per line (default: standard input)",
      ),
    },
    options: {
      toStore: required(text("url"), "the database: its URL, or a file that holds the URL"),
      dir: repeated(text("directory"), "audit directory whose lines and checkpoints are stored; repeated: several"),
      fromKafka: option(text("file"), "file with the settings of a kafka exporter: read its topic until SIGTERM"),
      group: defaulted(text("name"), { help: "consumer group of --from-kafka", fallback: "stc-audit-import" }),
    },
    exits: {
      0: "every line is in the store",
      1: "a line was refused, or a text is not what an exporter sends: all others are in the store",
      66: "a directory or a file cannot be read, or the store or Kafka does not answer: run it again, a line is stored once",
      78: "the settings of --from-kafka are invalid",
    },
    run: ({ files }, { dir, ...options }) =>
      guarded(async () => (await import("./import.ts")).auditImport({ ...options, dirs: dir, files })),
  }),
  command({
    name: "audit prune",
    summary: "Delete the files of old days that exporters and checkpoints no longer need",
    options: {
      dir,
      tenant,
      keep: required(text("duration"), `how long files are kept: ${DURATION_HINT}`),
      dryRun: flag("print what would be deleted, and delete nothing"),
      json,
    },
    exits: {
      0: "files were deleted, or would be",
      1: "no file was deleted",
      66: "the directory or a file cannot be read",
      73: "a file cannot be deleted",
    },
    run: (_, { dir, tenant, ...options }) =>
      guarded(async () => (await import("./export.ts")).auditPrune({ dir: await directory(dir, tenant), ...options })),
  }),
  command({
    name: "audit verify",
    summary: "Check the log: the first changed, missing, added or moved line of each stream",
    options: {
      dir,
      tenant,
      key,
      from: option(text("day"), "first day to check; only the chain is checked then"),
      to: option(text("day"), "last day to check"),
      json: JSON_FLAG,
      fromStore,
      expect: repeated(
        text("name"),
        "with --from-store: id of a log, or name of an instance, that must be there; repeated",
      ),
    },
    exits: {
      0: "sound, and signed by a given key",
      1: "tampered",
      2: "only an incomplete last line (a crash, or a line that is being written)",
      3: "lines are missing",
      4: "not signed, or not signed by a given key",
      5: "a file or a key cannot be read",
      6: "sound, but no signature was checked: no key was given, or only a part was read",
      66: "there is no audit directory",
    },
    run: async (_, { fromStore, expect, ...options }) => {
      if (fromStore !== undefined)
        return guarded(async () => (await store()).verifyFromStore(fromStore, expect, options));
      if (expect.length > 0) return wrongUsage("--expect needs --from-store");
      const dir = await directory(options.dir, options.tenant);
      return (await evidence()).auditVerify({ ...options, dir });
    },
  }),
  command({
    name: "audit fetch",
    summary: "Copy audit directories out of an archive, to read and verify them",
    arguments: { from: argument(text("archive"), "s3://BUCKET/PREFIX, or a directory with a copy of the archive") },
    options: {
      out: required(text("directory"), "where to write: a directory for each log, named by its id"),
      log: option(text("id"), "only the directory with this log (default: all)"),
      endpoint: option(text("url"), "URL of the object storage, without the bucket"),
      region: option(text("region"), "region of the bucket (default: us-east-1)"),
      credentialsFile: option(text("file"), "credentials of the object storage, as in audit.export"),
      caFile: option(text("file"), "certificates trusted for the endpoint, instead of the platform's"),
      json: JSON_FLAG,
    },
    exits: {
      0: "every part was there",
      1: "the archive holds no such log",
      3: "parts are missing or cannot be read",
      66: "the archive cannot be read, or the directory exists already",
    },
    run: ({ from }, options) => guarded(async () => (await import("./fetch.ts")).auditFetch(from, options)),
  }),
  command({
    name: "audit duckdb",
    summary: "Print SQL with which DuckDB reads the lines of an archive",
    arguments: { archive: argument(text("archive"), "a directory with a copy of the archive, or s3://BUCKET/PREFIX") },
    options: {},
    exits: { 0: "printed" },
    run: async ({ archive }) => (await import("./duckdb.ts")).auditDuckdb(archive),
  }),
  command({
    name: "audit prove",
    summary: "Print a proof that the log contains a call; checking it needs no log",
    arguments: { id: argument(text("id"), "trace id, id of the line, or LOG:SEQ as the log's id and the line's seq") },
    options: { dir, tenant, fromStore },
    exits: { 0: "printed", 1: "there is no proof of it", 66: "there is no audit directory" },
    run: async ({ id }, { dir, tenant, fromStore }) =>
      fromStore === undefined
        ? (await evidence()).auditProve(id, { dir: await directory(dir, tenant) })
        : guarded(async () =>
            (await store()).proveFromStore(fromStore, id, { dirs: dir === undefined ? [] : [dir], tenant }),
          ),
  }),
  command({
    name: "audit verify-proof",
    summary: "Check a proof, without the log",
    arguments: { file: argument(text("file")) },
    options: { key, json: JSON_FLAG },
    exits: {
      0: "proved",
      1: "not in the log",
      4: "not signed by a given key",
      5: "the proof or a key cannot be read",
    },
    run: async ({ file }, options) => (await evidence()).auditVerifyProof(file, options),
  }),
  command({
    name: "audit keys",
    summary: "Create the key that signs checkpoints, or print its public key",
    options: {
      new: option(text("file"), "create a private key in this file (audit.checkpointKeyFile)"),
      key: option(text("file"), "print the public key of this key"),
      dir: option(text("directory"), "also print the verifier keys of this log's streams"),
    },
    exits: { 66: "the key or the directory cannot be read", 73: "the file cannot be created" },
    run: async (_, options) => (await evidence()).auditKeys(options),
  }),
];
