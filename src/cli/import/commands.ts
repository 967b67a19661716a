import {
  argument,
  CONFIGURED,
  choice,
  command,
  flag,
  group,
  JSON_FLAG,
  option,
  remaining,
  repeated,
  text,
} from "../command.ts";

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] as const;

/** Commands that write manifests for what a system declares. */
export const commands = [
  group("import", "Write manifests from what a system declares"),
  command({
    name: "import openapi",
    summary:
      "Write manifests for operations of an OpenAPI document; they release nothing until their output policy says so",
    arguments: {
      system: argument(text("system"), "system under systems whose http.openapi names the document"),
      operations: remaining(text("operation"), 'operationId, or "GET /path"'),
    },
    uses: CONFIGURED,
    options: {
      list: flag("list the operations instead, with the reason for each that cannot be imported"),
      all: flag("all operations"),
      tag: repeated(text("tag"), "operations with this tag"),
      method: repeated(choice("method", METHODS), "operations with this method"),
      out: option(
        text("folder"),
        "folder for the manifests (default: one named like the system, in the first folder of tools)",
      ),
      json: JSON_FLAG,
    },
    exits: {
      0: "written or listed",
      1: "an operation could not be imported, or a file exists already",
      64: "wrong usage, an unknown system or an unknown operation",
      78: "the configuration or the document is invalid",
    },
    run: async ({ system, operations }, options) =>
      (await import("./openapi.ts")).importOpenApi(system, operations, options),
  }),
];
