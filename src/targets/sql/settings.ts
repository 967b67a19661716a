import { z } from "zod";
import { callLimits, clientCertificate, count, ownSystem, plaintext, text } from "../../egress/settings.ts";

const TABLE_COLUMN = /^[^.*]{1,63}\.(?:[^.*]{1,63}\.)?(?:[^.*]{1,63}|\*)$/;
const FUNCTION = /^[^.]{1,63}\.[^.]{1,63}$/;

const user = z.strictObject({
  user: text.describe("Name of the user. Superusers are refused."),
  passwordFile: text.optional().describe("File with the user's password. It is read for each connection."),
});

const callerValue = z
  .string()
  .regex(/^(?:subject|issuer|claims\.[^.]{1,128})$/, "must be subject, issuer or claims.name");

/** Settings of a database. */
export const sqlEntry = z.strictObject({
  url: z
    .string()
    .max(2_048)
    .describe(
      "`postgres://host:port/database` or `mariadb://host:port/database`, without a user: see `read`; or `sqlite:` and a file, such as `sqlite:./shop.sqlite`. The scheme selects the engine.",
    ),
  tls: z
    .strictObject({
      rootCert: text
        .optional()
        .describe("File with the trusted root certificates, PEM. Default: those of the platform."),
      ...clientCertificate,
    })
    .optional()
    .describe("The server's certificate is always verified, with its name."),
  plaintext: plaintext.describe("Set to `true` for a server on another host without TLS."),
  read: user.optional().describe("User of tools that read. It needs SELECT on what they read, and nothing else."),
  write: user.optional().describe("User of tools that change something. Without it, the system has no such tools."),
  writable: z
    .literal(true, "must be true, or left out")
    .optional()
    .describe("SQLite: whether the system has tools that change something."),
  caller: z
    .strictObject({
      settings: z
        .record(z.string().regex(/^[a-z_][a-z0-9_]{0,62}\.[a-z_][a-z0-9_]{0,62}$/, "must be name.name"), callerValue)
        .default({})
        .describe(
          "Settings of each transaction, which row-level security can read: `app.tenant: claims.tenant`. Statements cannot change them.",
        ),
      role: callerValue.optional().describe("Role of each transaction, one of `roles`."),
      roles: z.array(text).max(1_000).default([]).describe("Roles that a caller may have."),
    })
    .superRefine(({ role, roles }, context) => {
      if ((role === undefined) !== (roles.length === 0)) {
        context.addIssue({ code: "custom", path: ["roles"], message: "role and roles go together" });
      }
    })
    .optional()
    .describe(
      "PostgreSQL: what the database learns of the caller: `subject`, `issuer`, or a claim of its token, `claims.tenant`. A caller without the claim is refused.",
    ),
  functions: z
    .array(z.string().regex(FUNCTION, "must be schema.function"))
    .max(1_000)
    .optional()
    .describe(
      "Functions that statements may call besides the database's own that change nothing: `public.order_total`, for MariaDB `database.function`. They run with all their effects.",
    ),
  checkFunctions: z
    .boolean()
    .optional()
    .describe(
      "PostgreSQL: whether the functions of statements are checked, which is the default. Needs the right TEMPORARY, and a server that is not a standby.",
    ),
  columns: z
    .record(z.string().regex(TABLE_COLUMN, "must be table.column or table.*"), z.enum(["mask", "redact", "never"]))
    .default({})
    .describe(
      "Minimum protection of columns for all tools, by table and column: `orders.email: mask`, `staff.*: never`. It holds under every name that a statement gives a column.",
    ),
  connections: z
    .int()
    .min(1)
    .max(64)
    .optional()
    .describe("Most connections of one process and user; with SQLite, most processes that read. Default: 4."),
  limits: z
    .strictObject({
      statementMs: count(5_000, 600_000).describe("Time limit for a statement on the server."),
      lockMs: count(500, 600_000).describe("Longest wait for a lock."),
      cellChars: count(65_536, 1_048_576).describe("Longest text of one column in one row."),
      bytes: count(1_048_576, 67_108_864).describe("Most bytes (UTF-8) of the values in all rows of a result."),
    })
    .prefault({}),
  ...callLimits,
});

/** A system of the kind. `engines.ts` adds what its engine says of it. */
export const systemSettings = { own: ownSystem } as const;

export type SqlEntry = z.output<typeof sqlEntry>;
export type SqlEntries = ReadonlyMap<string, { readonly sql: SqlEntry }>;

/** Returns the claims that an entry reads. */
export function claimsIn({ sql: { caller } }: { readonly sql: SqlEntry }): readonly string[] {
  const values = caller === undefined ? [] : [...Object.values(caller.settings), caller.role ?? ""];
  return values.filter((value) => value.startsWith(CLAIM)).map((value) => value.slice(CLAIM.length));
}

export const CLAIM = "claims.";

/** The settings that not every engine has. */
export type EngineSetting = Exclude<keyof SqlEntry, "url" | "columns" | "limits" | keyof typeof callLimits>;
