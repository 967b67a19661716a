import { z } from "zod";
import { text } from "../../egress/settings.ts";
import type { DecisionPointKind } from "../kind.ts";

const settings = z.strictObject({
  policiesFile: text.describe("File with the policies, in Cedar's own syntax."),
  schemaFile: text
    .optional()
    .describe("File with the schema, in Cedar's own syntax. The policies and the entities are validated with it."),
  entitiesFile: text
    .optional()
    .describe("File with entities (JSON), such as the teams of callers. The service adds what it knows itself."),
});

/** Policies in the language Cedar, decided in the service itself. */
export const cedar: DecisionPointKind<"cedar", typeof settings> = {
  key: "cedar",
  settings: settings.describe("Policies in the language Cedar, decided in the service itself."),
  isRemote: false,
  async open(entry, context) {
    return (await import("./cedar.ts")).openCedar(entry, context);
  },
};
