import { z } from "zod";
import { text } from "../../../egress/settings.ts";

const NAME = "[A-Za-z_][A-Za-z0-9_]{0,127}";

/** A system's `http.graphql`. */
export const graphqlSettings = z
  .strictObject({
    schemaFile: text.describe(
      "GraphQL schema of the API: SDL, or the answer of an introspection query in JSON. Documents of manifests are checked against it when they are loaded, and `stc import graphql` reads it.",
    ),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/, "must be the SHA-256 of the file, in lower-case hex")
      .optional()
      .describe("Hex SHA-256 of the schema's file. The service does not start with another one."),
    fields: z
      .record(
        z.string().regex(new RegExp(`^${NAME}\\.(?:${NAME}|\\*)$`), "must be Type.field or Type.*"),
        z.enum(["mask", "redact", "never"]),
      )
      .default({})
      .describe(
        "Minimum protection of fields for all tools, by type and field: `User.email: mask`, `Staff.*: never`. It holds under every alias, and for the interfaces that a type has.",
      ),
    scalars: z
      .record(z.string().regex(new RegExp(`^${NAME}$`)), z.enum(["string", "integer", "number", "boolean", "any"]))
      .default({})
      .describe("What the values of the schema's own scalars are: `DateTime: string`."),
  })
  .optional()
  .describe("GraphQL of the API.");

export type GraphqlSettings = NonNullable<z.output<typeof graphqlSettings>>;
