import { MODES } from "../core/types.ts";
import {
  argument,
  CLIENT,
  CONFIGURED,
  CONFIGURED_SERVICE,
  choice,
  command,
  defaulted,
  duration,
  flag,
  group,
  JSON_FLAG,
  list,
  option,
  remaining,
  repeated,
  required,
  TLS,
  text,
  URL_OPTION,
  wholeNumber,
} from "./command.ts";

/** The longest token lifetime that a service accepts by default. */
const TOKEN_SECONDS_MAX = 3_600;
const OBSERVATION_SECONDS_MAX = 3_600;

const ACCEPT = flag(
  "accept the suggested output policies, which go by the fields' names, instead of writing them as comments",
);

/** The call that a command is about. Its arguments may be given in either place; `callArguments` reads them. */
const TOOL_CALL = {
  arguments: { tool: argument(text("tool")), args: argument(text("args"), "arguments as JSON", "{}") },
  options: { args: option(text("json"), "arguments as JSON, instead of the positional ones") },
};

const callArguments = async (positional: string, option: string | undefined): Promise<string> =>
  (await import("./arguments.ts")).callArguments(positional, option);

/** Whose use of a quota. */
const QUOTA_USER = {
  caller: list(text("issuer-and-subject"), "only of this caller: its issuer and its subject"),
  tool: option(text("tool"), "only of this tool"),
  system: option(text("system"), "only of this system"),
};

/** Commands outside any group: those that load a configuration first, then those that ask a running service. */
export const commands = [
  command({
    name: "init",
    summary: "Write a service that runs at once: a configuration, two tools, tests, and keys for this machine",
    arguments: {
      directory: argument(text("directory"), "where it is written; existing files are left as they are", "."),
    },
    options: { database: flag("also write a SQLite database with customers and orders, and a tool that reads it") },
    exits: { 1: "a file exists already, or cannot be written" },
    run: async ({ directory }, { database = false }) => (await import("./init.ts")).init(directory, { database }),
  }),
  command({
    name: "serve",
    summary: "Run the service",
    uses: CONFIGURED_SERVICE,
    exits: { 0: "stopped by a signal", 1: "stopped by an error" },
    run: async (_, options) => (await import("./service.ts")).serve(options),
  }),
  command({
    name: "check",
    summary: "Load everything and print all errors: of the service and of all its tenants, or of one with --tenant",
    uses: CONFIGURED,
    options: {
      matrix: flag(
        "print who can call what: tools, their permissions and categories, and what each subject may do (~ depends on the arguments)",
      ),
      csv: flag("print what each subject may do as CSV, with --matrix; of the service itself, or of one --tenant", {
        excludes: "json",
      }),
      connect: flag(
        "also connect to the database or the hub, the issuers' key sets and the audit's receivers, and change nothing there; a hub tries its own port",
      ),
      json: JSON_FLAG,
    },
    run: async (_, options) => (await import("./check.ts")).check(options),
  }),
  command({
    name: "tools",
    summary: "List the tools, which of them ask, and the permissions that they need",
    uses: CONFIGURED,
    options: { json: JSON_FLAG },
    run: async (_, options) => (await import("./check.ts")).tools(options),
  }),
  group("access", "Review who may do what"),
  command({
    name: "access export",
    summary: "Print who may call which tool and why, from the configuration alone, for reviews",
    uses: CONFIGURED,
    options: {
      format: defaulted<"json" | "csv">(choice("format", ["json", "csv"]), { help: "format", fallback: "json" }),
    },
    run: async (_, options) => (await import("./access.ts")).accessExport(options),
  }),
  group("import", "Write manifests for the tools of a system"),
  command({
    name: "import mcp",
    summary: "Write data-only manifests for the tools of an MCP server, which release nothing until you allow fields",
    arguments: { system: argument(text("system")) },
    uses: CONFIGURED,
    options: {
      out: required(text("directory"), "where the manifests are written; existing files are left as they are"),
      tool: list(text("tool"), "only this tool of the server; may be repeated"),
      read: list(text("tool"), "tools of the server that only read, as you judge: classification read"),
      rename: repeated(text("tool=name"), "name of the tool here; may be repeated"),
      trustAnnotations: flag("believe the server which of its tools only read"),
      accept: ACCEPT,
      json: JSON_FLAG,
    },
    exits: {
      1: "a tool could not be imported, or a file exists already",
      2: "the server cannot be reached",
      64: "wrong usage, or an unknown system or tool",
    },
    run: async ({ system }, options) => (await import("./import/mcp.ts")).importTools(system, options),
  }),
  command({
    name: "import grpc",
    summary: "Write data-only manifests for methods of a gRPC service, which release nothing until you allow fields",
    arguments: {
      system: argument(text("system"), "a gRPC system: its proto files, descriptor set or reflection are read"),
      methods: remaining(text("method"), "Method, Service.Method, or package.Service.Method"),
    },
    uses: CONFIGURED,
    options: {
      list: flag("list the methods instead, with the reason for each that cannot be imported"),
      all: flag("all methods"),
      service: repeated(text("service"), "methods of this service"),
      out: option(text("directory"), "where the manifests are written; existing files are left as they are"),
      read: list(text("method"), "methods that only read, as you judge: classification read"),
      rename: repeated(text("method=name"), "name of the tool; may be repeated"),
      accept: ACCEPT,
      json: JSON_FLAG,
    },
    exits: {
      0: "written or listed",
      1: "a method could not be imported, or a file exists already",
      2: "the service cannot be reached",
      64: "wrong usage, or an unknown system or method",
      78: "the configuration or the contract is invalid",
    },
    run: async ({ system, methods }, options) =>
      (await import("./import/grpc.ts")).importGrpc(system, methods, options),
  }),
  command({
    name: "import graphql",
    summary: "Write data-only manifests for GraphQL operations, which release nothing until you allow fields",
    arguments: {
      system: argument(text("system"), "a system of the kind http whose graphql names the schema"),
      names: remaining(text("operation"), "names of operations in the files (default: all)"),
    },
    uses: CONFIGURED,
    options: {
      operations: list(text("file"), "files with named operations and their fragments"),
      schema: option(
        text("file"),
        "another schema, SDL or introspection result; without --operations, it is compared with the saved one",
      ),
      list: flag("list the operations instead, with the reason for each that cannot be imported"),
      out: option(text("directory"), "where the manifests are written; existing files are left as they are"),
      path: option(text("path"), "path of the API below baseUrl (default: /graphql)"),
      rename: repeated(text("operation=name"), "name of the tool; may be repeated"),
      accept: ACCEPT,
      json: JSON_FLAG,
    },
    exits: {
      0: "written, listed, or no breaking change",
      1: "an operation could not be imported, a file exists already or cannot be read, or a change is breaking",
      64: "wrong usage, an unknown system or operation, or a schema that cannot be used",
      78: "the configuration or the saved schema is invalid",
    },
    run: async ({ system, names }, options) =>
      (await import("./import/graphql.ts")).importGraphql(system, names, options),
  }),
  command({
    name: "import openapi",
    summary:
      "Write data-only manifests for operations of an OpenAPI document, which release nothing until you allow fields",
    arguments: {
      system: argument(text("system"), "a system whose http.openapi names the document"),
      operations: remaining(text("operation"), 'operationId, or "GET /path"'),
    },
    uses: CONFIGURED,
    options: {
      list: flag("list the operations instead, with the reason for each that cannot be imported"),
      all: flag("all operations"),
      tag: repeated(text("tag"), "operations with this tag"),
      method: repeated(
        choice("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]),
        "operations with this method",
      ),
      out: option(text("directory"), "where the manifests are written; existing files are left as they are"),
      read: list(text("operation"), "operations that only read, as you judge: classification read"),
      rename: repeated(text("operation=name"), "name of the tool; may be repeated"),
      fix: repeated(text("argument=value"), "send this value in every call, instead of an argument; may be repeated"),
      accept: ACCEPT,
      openInput: flag(
        "do not take the form of arguments from the document, which may be wrong: only names, types and what is required",
      ),
      openOutput: flag(
        "do not take the answers' form from the document, which may be wrong: stc learn --describe describes it",
      ),
      json: JSON_FLAG,
    },
    exits: {
      0: "written or listed",
      1: "an operation could not be imported, or a file exists already",
      64: "wrong usage, or an unknown system or operation",
      78: "the configuration or the document is invalid",
    },
    run: async ({ system, operations }, options) =>
      (await import("./import/openapi.ts")).importOpenApi(system, operations, options),
  }),
  command({
    name: "import sql",
    summary:
      "Write data-only manifests for tables and views of a database, which release nothing until you allow fields",
    arguments: {
      system: argument(
        text("system"),
        "a system with a database; without --table and --statement, its tables are listed",
      ),
    },
    uses: CONFIGURED,
    options: {
      table: repeated(text("table"), "tools for this table or view, name or schema.name; may be repeated"),
      statement: repeated(text("file"), "a tool for the statement in this file; may be repeated"),
      write: flag("also a tool that changes one row, for each table with a primary key"),
      list: flag("list the tools instead, with the reason for each that cannot be imported"),
      out: option(text("directory"), "where the manifests are written; existing files are left as they are"),
      rename: repeated(text("tool=name"), "name of the tool; may be repeated"),
      accept: ACCEPT,
      json: JSON_FLAG,
    },
    exits: {
      0: "written or listed",
      1: "a tool could not be imported, or a file exists already",
      2: "the database cannot be reached, or is of an engine whose tables cannot be imported yet",
      64: "wrong usage, or an unknown system or table",
      78: "the configuration is invalid",
    },
    run: async ({ system }, options) => (await import("./import/sql.ts")).importSql(system, options),
  }),
  command({
    name: "plan",
    summary: "Show exactly what a call would run, and run nothing",
    arguments: TOOL_CALL.arguments,
    uses: CONFIGURED,
    options: {
      ...TOOL_CALL.options,
      sub: option(text("subject"), "show what decision points are asked about a call of this subject"),
      iss: option(text("issuer"), "issuer of the caller's token (default: the only one of agents)"),
      askExternal: flag("also ask decision points that are other systems; needs --sub"),
      json: JSON_FLAG,
    },
    exits: {
      0: "planned",
      1: "the call would be refused",
      64: "wrong usage, an unknown tool, or arguments that are not a JSON object",
    },
    run: async ({ tool, args }, options) =>
      (await import("./plan.ts")).plan(tool, await callArguments(args, options.args), options),
  }),
  command({
    name: "explain",
    summary: "Show what every policy says about a call, and what would have to change; run nothing",
    arguments: TOOL_CALL.arguments,
    uses: CONFIGURED,
    options: {
      ...TOOL_CALL.options,
      sub: option(text("subject"), "subject of the caller", { excludes: "agentTokenFile" }),
      iss: option(text("issuer"), "issuer of the caller's token (default: the only one of agents)"),
      permissions: option(
        text("names"),
        "permissions of the caller, with commas between them (default: those that the configuration gives it)",
      ),
      agentTokenFile: option(text("file"), "file with a token of the agent, instead of its subject and permissions"),
      session: option(text("id"), "session that the call names; needs --service"),
      mode: option(choice("mode", MODES), "mode of the session (default: the configuration's)"),
      lookups: flag("let planning ask the target, where it needs that"),
      service: flag("ask a running service, whose address and token are given as for stc call", { excludes: "config" }),
      url: URL_OPTION,
      tokenFile: option(text("file"), "file with an operator's token for --service (default: STC_TOKEN_FILE)"),
      ...TLS,
      json: JSON_FLAG,
    },
    exits: {
      0: "the call would run",
      1: "it would be refused, or a person asked",
      2: "the service does not answer",
      64: "wrong usage, or arguments that are not a JSON object",
      66: "the token cannot be read",
    },
    run: async ({ tool, args }, options) =>
      (await import("./explain.ts")).explain(tool, await callArguments(args, options.args), options),
  }),
  command({
    name: "replay",
    summary: "Compare the verdicts of recorded calls with those of a changed configuration",
    uses: CONFIGURED,
    options: {
      from: option(text("time"), "calls since then: 24h, 7d, yesterday, 2026-02-16 (default: all)"),
      to: option(text("time"), "calls before then"),
      audit: option(text("directory"), "audit directory (default: that of the configuration)"),
      askExternal: flag("also ask policy points that are other systems"),
      json: JSON_FLAG,
    },
    exits: {
      0: "no verdict differs",
      1: "at least one differs",
      64: "wrong usage",
      65: "lines of the audit were changed, removed or cut off, whether or not a verdict differs",
      66: "there is no audit directory",
    },
    run: async (_, options) => (await import("./replay.ts")).replay(options),
  }),
  command({
    name: "filter",
    summary: "Show, field by field, what an agent would see of an answer, and why",
    arguments: { tool: argument(text("tool")) },
    uses: CONFIGURED,
    options: {
      sample: required(text("file"), "an answer as JSON: the input of the tool's output schema"),
      json: JSON_FLAG,
    },
    exits: {
      0: "the agent would get the answer",
      1: "the answer would be withheld",
      64: "wrong usage or an unknown tool",
      66: "the sample cannot be read",
    },
    run: async ({ tool }, options) => (await import("./filter.ts")).filter(tool, options),
  }),
  command({
    name: "try",
    summary: "Run a tool on this machine, and show its author everything that an agent must not see",
    arguments: TOOL_CALL.arguments,
    uses: CONFIGURED,
    options: {
      ...TOOL_CALL.options,
      yes: flag("run a tool that can change something without a question"),
      sub: option(text("subject"), "subject of the caller (default: stc-try)"),
      json: JSON_FLAG,
    },
    exits: {
      0: "an agent would get an answer",
      1: "it would get an error, or the tool was not run",
      64: "wrong usage, an unknown tool, arguments that are not a JSON object, or a change without --yes",
    },
    run: async ({ tool, args }, options) =>
      (await import("./authoring/try.ts")).tryTool(tool, await callArguments(args, options.args), options),
  }),
  command({
    name: "test",
    summary: "Compare what becomes of calls and answers with the fixtures beside manifests; reach no target",
    arguments: { selected: remaining(text("files-or-tools"), "files of fixtures, or names of tools (default: all)") },
    uses: CONFIGURED,
    options: {
      update: flag("write what answers release into the fixtures, after showing each difference"),
      json: JSON_FLAG,
    },
    exits: { 0: "all passed", 1: "at least one failed", 66: "there are no fixtures" },
    run: async ({ selected }, options) => (await import("./authoring/test.ts")).test(selected, options),
  }),
  command({
    name: "token",
    summary: "Print a token signed with the development keys",
    options: {
      keys: option(
        text("directory"),
        "folder of the keys, as stc init makes it; missing keys are made (default: those of the development mode)",
      ),
      sub: required(text("subject"), "subject of the token"),
      permission: list(
        text("permission"),
        "what the caller may do (default: nothing; for an operator: every permission of the operators' endpoints)",
      ),
      operator: flag("a token for the operators' endpoints; it cannot call tools"),
      session: option(
        text("id"),
        "the agent's session, for which approvals can be remembered (default: a random session)",
      ),
      claim: list(text("name=text"), "a further claim, such as the tenant: tenant=acme"),
      ttl: defaulted(duration(TOKEN_SECONDS_MAX), { help: "30s, 15m, 1h", fallback: TOKEN_SECONDS_MAX }),
    },
    run: async (_, options) => (await import("./token.ts")).token(options),
  }),
  command({
    name: "console",
    summary: "Print the address of the operators' console; with --dev, a link that signs in once",
    uses: CONFIGURED_SERVICE,
    exits: {
      2: "the console of the development stand does not answer",
      78: "the configuration is invalid, or has no console",
    },
    run: async (_, options) => (await import("./console.ts")).console(options),
  }),
  command({
    name: "health",
    summary: "Check that a running service is alive",
    options: {
      ...TLS,
      url: option(
        text("url"),
        "the service (default: STC_URL, else the address in its configuration, else port 8787 on this machine)",
      ),
      config: option(text("file"), "the service's configuration file (default: STC_CONFIG)"),
      ready: flag("check that the service takes calls"),
    },
    exits: { 0: "healthy", 1: "not healthy", 2: "the service does not answer" },
    run: async (_, options) => (await import("./health.ts")).health(options),
  }),
  command({
    name: "doctor",
    summary: "Say what is wrong with a deployment, next to a running service or before its first start; change nothing",
    uses: CONFIGURED,
    options: {
      url: option(text("url"), "the running service (default: STC_URL, else the address in its configuration)"),
      tokenFile: option(
        text("file"),
        "file with an operator's token that has metrics:read, for what the running service knows (default: STC_TOKEN_FILE)",
      ),
      ...TLS,
      json: JSON_FLAG,
    },
    exits: { 0: "no check failed; there may be warnings", 1: "at least one check failed" },
    run: async (_, options) => (await import("./doctor/doctor.ts")).doctor(options),
  }),
  command({
    name: "reload",
    summary: "Make a running service load changed configuration, manifests and keys",
    uses: CLIENT,
    run: async (_, options) => (await import("./call.ts")).reload(options),
  }),
  command({
    name: "call",
    summary: "Call a tool of a running service",
    arguments: TOOL_CALL.arguments,
    uses: CLIENT,
    options: {
      ...TOOL_CALL.options,
      approval: option(text("id"), "id of the approval of exactly this call; new: ask a person again", {
        excludes: "dryRun",
      }),
      dryRun: flag("only say what would happen to the call: allow, ask or deny"),
    },
    exits: { 0: "the call has run; with --dry-run: it would" },
    run: async ({ tool, args }, options) =>
      (await import("./call.ts")).call(tool, await callArguments(args, options.args), options),
  }),
  command({
    name: "learn",
    summary: "Observe what a tool's answers look like on a running service, and propose an output policy",
    arguments: { tool: argument(text("tool")) },
    uses: CLIENT,
    options: {
      for: defaulted(duration(OBSERVATION_SECONDS_MAX), { help: "30s, 10m, 1h", fallback: 600 }),
      answers: defaulted(wholeNumber, { help: "stop after this many answers, at most 1000", fallback: 50 }),
      format: option(
        choice<"yaml" | "typescript">("format", ["yaml", "typescript"]),
        "form of the proposal (default: yaml)",
      ),
      describe: flag(
        "also describe what the output schema leaves open, and text that is JSON: shows names of their fields",
      ),
      apply: option(text("file"), "write the proposal into the tool's manifest, a YAML file"),
    },
    exits: { 0: "the proposal is printed, also after Ctrl-C" },
    run: async ({ tool }, options) => (await import("./learn.ts")).learn(tool, options),
  }),
  command({
    name: "mcp",
    summary: "Connect an MCP client on standard input and output to a running service",
    options: {
      url: URL_OPTION,
      tokenFile: option(text("file"), "file that contains the token, read at each request (default: STC_TOKEN_FILE)"),
      ...TLS,
      dev: flag("present tokens of the development issuers", { excludes: "tokenFile" }),
    },
    exits: { 0: "standard input has ended" },
    run: async (_, options) => (await import("./mcp.ts")).mcp(options),
  }),
  group("quotas", "Budgets of callers, tools and systems"),
  command({
    name: "quotas list",
    summary: "Show the quotas, and who has used how much of them",
    uses: CLIENT,
    options: {
      quota: option(text("name"), "only the use of this quota"),
      ...QUOTA_USER,
      limit: defaulted(wholeNumber, { help: "number of uses, at most 500", fallback: 100 }),
    },
    run: async (_, options) => (await import("./quotas.ts")).listQuotas(options),
  }),
  command({
    name: "quotas reset",
    summary: "Set the use of a quota to zero, until its window ends",
    arguments: { name: argument(text("name")) },
    uses: CLIENT,
    options: QUOTA_USER,
    run: async ({ name }, options) => (await import("./quotas.ts")).resetQuota(name, options),
  }),
  command({
    name: "completion",
    summary: "Print a script that completes commands, options and choices in a shell",
    arguments: { shell: argument(choice<"bash" | "zsh" | "fish">("shell", ["bash", "zsh", "fish"])) },
    run: async ({ shell }, _, commands) => (await import("./completion.ts")).completion(shell, commands),
  }),
  group("schema", "Print what editors check files with"),
  command({
    name: "schema tool",
    summary: "Print the JSON Schema of tools in YAML",
    run: async () => {
      const { editorSchema } = await import("../runtime/manifests/editor-schema.ts");
      const { MODULES } = await import("../modules.ts");
      (await import("./output.ts")).print.json(editorSchema(MODULES.targetKinds), 2);
    },
  }),
  command({
    name: "schema configuration",
    summary: "Print the JSON Schema of the configuration",
    run: async () => {
      const { default: schema } = await import("../../docs/configuration.schema.json", { with: { type: "json" } });
      (await import("./output.ts")).print.json(schema, 2);
    },
  }),
  command({
    name: "schema test",
    summary: "Print the JSON Schema of the fixtures beside manifests",
    run: async () => {
      const { fixturesSchema } = await import("./authoring/fixtures.ts");
      (await import("./output.ts")).print.json(fixturesSchema(), 2);
    },
  }),
];
