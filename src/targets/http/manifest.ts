import { z } from "zod";
import type { Fault } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { isSchema, isText, oneOf, type Unchecked, unknownKeys, unless } from "../../core/manifest/checks.ts";
import { hint } from "../../core/nearest.ts";
import { boundedFormatsOf, checksOf, maximumOf, writtenPattern } from "../../core/schema/text-checks.ts";
import { defOf, leavesOf, type Schema } from "../../core/schema/walk.ts";
import { graphqlFaults, graphqlPart } from "./graphql/manifest.ts";
import {
  type BodyForm,
  bodyFormOf,
  FORM_TYPE,
  HEADER_VALUE,
  JSON_TYPE,
  JSON_TYPES,
  namesIn,
  OTHER_ARGUMENTS,
  TEXT_TYPE,
  templateOf,
} from "./request.ts";

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] as const;
const BODY_METHODS = ["POST", "PUT", "PATCH"] as const;
/** Methods that only change something. A search may be a POST. */
const CHANGING_METHODS = ["PUT", "PATCH", "DELETE"] as const;
const MEANINGS = [
  ...(["OK", "NOT_FOUND", "ALREADY_EXISTS", "INVALID_ARGUMENT"] as const),
  ...(["FAILED_PRECONDITION", "OUT_OF_RANGE"] as const),
] as const;
const PATH_CHARACTERS_MAX = 1_024;
/** Longest text that is put into a path. */
const PARAMETER_CHARACTERS_MAX = 1_024;
const PARAMETERS_MAX = 64;
const BODY_DEPTH_MAX = 16;

/** Literal text of a path: unreserved characters, and the delimiters that separate nothing. */
const PATH_TEXT = /^[A-Za-z0-9._~!$&()*+,=:@/-]*$/;
const HEADER_NAME = /^[a-z0-9!#$%&'*+.^_`|~-]{1,64}$/;

const text = z.string();
const values = "An argument in braces is its value; one alone is left out without it.";

/** A manifest's `target.http`, for editors. `httpFaults` knows more: what the parts have to do with each other and with the input. */
export const httpRequestPart = z
  .strictObject({
    method: z.enum(METHODS).describe("HTTP method. A tool that reads has no `PUT`, `PATCH` or `DELETE`."),
    path: text
      .max(PATH_CHARACTERS_MAX)
      .regex(/^\/[^?#]*$/)
      .describe(
        "Path below the system's `baseUrl`. An argument in braces is one segment or a part of one: `/orders/{order}`.",
      ),
    query: z
      .record(text, text)
      .optional()
      .describe(`Parameters by name: \`limit: "{limit}"\`. ${values} A list repeats the parameter.`),
    headers: z
      .record(text.regex(HEADER_NAME), text)
      .optional()
      .describe(`Headers by lower-case name. ${values} Credentials belong into the configuration.`),
    body: z
      .unknown()
      .optional()
      .describe(
        'JSON, for `POST`, `PUT` and `PATCH`. `"{name}"` alone is the argument\'s value, `"{*}"` all arguments used nowhere else.',
      ),
    contentType: z
      .union([z.enum([JSON_TYPE, FORM_TYPE, TEXT_TYPE]), text.regex(JSON_TYPES)])
      .optional()
      .describe("Media type of the body. Default: `application/json`."),
    graphql: graphqlPart.optional(),
    means: z
      .record(text.regex(/^(?:2\d\d|4(?!01)\d\d)$/), z.enum(MEANINGS))
      .optional()
      .describe("What statuses mean where the usual meaning is wrong: `410: NOT_FOUND`. 2xx can only mean `OK`."),
  })
  .describe("A request to an HTTP API.");

/** Headers that carry meaning for the transport, for intermediaries, or for the proxy itself. */
const OWN_HEADERS = new Set([
  ..."authorization cookie set-cookie host content-length transfer-encoding connection keep-alive te trailer upgrade".split(
    " ",
  ),
  ..."expect forwarded via idempotency-key traceparent tracestate content-type content-encoding accept-encoding".split(
    " ",
  ),
  ..."x-caller-assertion x-http-method x-http-method-override x-method-override x-original-url x-rewrite-url x-real-ip".split(
    " ",
  ),
  ..."x-client-ip x-cluster-client-ip true-client-ip x-original-host x-original-method http2-settings max-forwards".split(
    " ",
  ),
]);
const OWN_PREFIXES = ["proxy-", "x-forwarded-", "sec-", "x-caller-"] as const;

/** Returns why a header cannot be set by manifests and configurations. */
export function headerNameProblem(name: string): string | undefined {
  if (!HEADER_NAME.test(name)) return "must be a lower-case header name";
  // Servers that pass headers in variables read `x_name` and `x.name` as `x-name`.
  const read = name.replace(/[^a-z0-9]/g, "-");
  const isOwn = OWN_HEADERS.has(read) || OWN_PREFIXES.some((prefix) => read.startsWith(prefix));
  return isOwn ? "is set by the proxy itself, or means something to servers on the way" : undefined;
}

/** Returns the errors in a manifest's `target.http`. */
export function httpFaults(part: unknown, manifest: Unchecked): readonly Fault[] {
  const field = "target.http";
  if (!isTable(part))
    return [{ field, message: "must be { method, path, query, headers, body, contentType, graphql, means }" }];
  const { method } = part;
  const isRead = manifest["classification"] === "read";
  return [
    ...unless(oneOf(METHODS)(method), `${field}.method`, `must be one of ${METHODS.join(", ")}`),
    ...unless(
      !(isRead && oneOf(CHANGING_METHODS)(method)),
      `${field}.method`,
      `${String(method)} is not a read: classify the tool as write or destructive`,
    ),
    ...pathFaults(part["path"]),
    ...parameterFaults(`${field}.query`, part["query"], () => undefined),
    ...parameterFaults(`${field}.headers`, part["headers"], headerProblem),
    ...graphqlFaults(part, manifest),
    ...variablesFaults(part["graphql"]),
    ...bodyFaults(part),
    ...meansFaults(part["means"]),
    ...unknownKeys(field, part, Object.keys(httpRequestPart.shape)),
    ...argumentFaults(part, manifest["input"]),
  ];
}

function pathFaults(path: unknown): readonly Fault[] {
  const field = "target.http.path";
  if (!isText(path) || !path.startsWith("/") || path.length > PATH_CHARACTERS_MAX) {
    return [{ field, message: `must be text of at most ${PATH_CHARACTERS_MAX} characters that begins with /` }];
  }
  const parts = templateOf(path);
  if (parts === undefined) return [{ field, message: "has braces that do not enclose the name of an argument" }];
  if (/[?#]/.test(path)) return [{ field, message: "must not contain ? or #: write parameters under query" }];
  const literal = parts.filter((part) => typeof part === "string").join("");
  if (!PATH_TEXT.test(literal))
    return [{ field, message: "has characters that must be encoded or mean something else" }];
  const segments = path.slice(1).split("/");
  if (segments.slice(0, -1).includes("")) return [{ field, message: "must not contain //" }];
  return unless(
    !segments.some((segment) => segment === "." || segment === ".."),
    field,
    "must not contain . or .. as a segment",
  );
}

function headerProblem(name: string, value: string): string | undefined {
  const problem = headerNameProblem(name);
  if (problem !== undefined) return problem;
  const literal = (templateOf(value) ?? []).map((part) => (typeof part === "string" ? part : "x")).join("");
  return HEADER_VALUE.test(literal) ? undefined : "must be visible ASCII";
}

function parameterFaults(
  field: string,
  parameters: unknown,
  problemOf: (name: string, value: string) => string | undefined,
): readonly Fault[] {
  if (parameters === undefined) return [];
  if (!isTable(parameters)) return [{ field, message: 'must be a table of texts, such as { limit: "{limit}" }' }];
  const names = Object.keys(parameters);
  if (names.length > PARAMETERS_MAX) return [{ field, message: `must have at most ${PARAMETERS_MAX} members` }];
  return names.flatMap((name) => {
    const value = parameters[name];
    const at = `${field}.${name}`;
    if (!isText(value) || templateOf(value) === undefined) {
      return [{ field: at, message: "must be text, in which {name} is replaced by an argument" }];
    }
    const problem = problemOf(name, value);
    return problem === undefined ? [] : [{ field: at, message: problem }];
  });
}

function bodyFaults({ method, body, contentType }: Unchecked): readonly Fault[] {
  const [field, typeField] = ["target.http.body", "target.http.contentType"];
  if (body === undefined) return unless(contentType === undefined, typeField, "is only for a request with a body");
  if (!oneOf(BODY_METHODS)(method)) return [{ field, message: `a ${String(method)} request has no body` }];
  const type = contentType ?? JSON_TYPE;
  const form = isText(type) ? bodyFormOf(type) : undefined;
  if (form === undefined) {
    return [{ field: typeField, message: `must be a JSON type, ${FORM_TYPE} or ${TEXT_TYPE}` }];
  }
  if (!isJson(body, 0)) {
    return [{ field, message: "must be JSON, in whose texts {name} is replaced by an argument" }];
  }
  return formFaults(field, body, form);
}

function variablesFaults(graphql: unknown): readonly Fault[] {
  const isSound = !isTable(graphql) || graphql["variables"] === undefined || isJson(graphql["variables"], 0);
  return unless(
    isSound,
    "target.http.graphql.variables",
    "must be JSON, in whose texts {name} is replaced by an argument",
  );
}

function formFaults(field: string, body: unknown, form: BodyForm): readonly Fault[] {
  if (form === "text") return unless(isText(body), field, "must be one text for text/plain");
  if (form === "json" || body === `{${OTHER_ARGUMENTS}}`) return [];
  const isFlat = isTable(body) && Object.values(body).every((value) => typeof value !== "object");
  return unless(isFlat, field, "must be a table of texts for a form");
}

function isJson(value: unknown, depth: number): boolean {
  if (typeof value === "string") return templateOf(value) !== undefined;
  if (value === null || typeof value === "boolean" || Number.isFinite(value)) return true;
  if (typeof value !== "object" || depth > BODY_DEPTH_MAX) return false;
  return Object.values(value).every((inner) => isJson(inner, depth + 1));
}

function meansFaults(means: unknown): readonly Fault[] {
  const field = "target.http.means";
  if (means === undefined) return [];
  if (!isTable(means)) return [{ field, message: 'must be a table such as { 404: "NOT_FOUND" }' }];
  return Object.entries(means).flatMap(([status, meaning]) => {
    const at = `${field}.${status}`;
    if (!oneOf(MEANINGS)(meaning)) return [{ field: at, message: `must be one of ${MEANINGS.join(", ")}` }];
    if (/^2\d\d$/.test(status)) return unless(meaning === "OK", at, "is a success: it can only mean OK");
    if (status === "401") return [{ field: at, message: "concerns the proxy's own credentials" }];
    return unless(/^4\d\d$/.test(status), at, "must be a status from 200 to 299 or from 400 to 499");
  });
}

/** Parts that may hold all arguments that are used nowhere else. */
const OPEN_PARTS: ReadonlySet<string> = new Set(["body", "graphql.variables"]);

/** Returns the errors in the use of arguments, once the parts can be read. */
function argumentFaults(part: Unchecked, input: unknown): readonly Fault[] {
  if (!isSchema(input) || defOf(input).type !== "object") return [];
  const fields = fieldsOf(input);
  const known = Object.keys(fields);
  const { path, query, headers, body, graphql } = part;
  const variables = isTable(graphql) ? graphql["variables"] : undefined;
  const texts = { path, query, headers, body, "graphql.variables": variables };
  const unknown = Object.entries(texts).flatMap(([key, value]) =>
    namesIn(value)
      .filter((name) => !Object.hasOwn(fields, name) && !(OPEN_PARTS.has(key) && name === OTHER_ARGUMENTS))
      .map((name) => ({ field: `target.http.${key}`, message: `names no argument: {${name}}${hint(name, known)}` })),
  );
  const inPath = namesIn(part["path"]).flatMap((name) => {
    const schema = fields[name];
    const message = schema === undefined ? undefined : pathProblem(schema);
    return message === undefined ? [] : [{ field: `input.${name}`, message }];
  });
  return [...unknown, ...inPath];
}

/** Returns the arguments of an input schema by name. */
export function fieldsOf(input: Schema): Readonly<Record<string, Schema>> {
  const def = defOf(input);
  return def.type === "object" ? def.shape : {};
}

function pathProblem(schema: Schema): string | undefined {
  if (schema._zod.optout === "optional") return "is part of the path: it must not be optional";
  const leaves = leavesOf(schema, "out");
  if (leaves.some((leaf) => ["object", "array", "record", "map", "set", "tuple"].includes(defOf(leaf).type))) {
    return "is part of the path: it must be text, a number, or true or false";
  }
  const isUnbounded = leaves.some((leaf) => !isBounded(leaf));
  return isUnbounded
    ? `is part of the path: write an enum, a bounded format such as z.uuid(), or .max(n) with n up to ${PARAMETER_CHARACTERS_MAX} (in YAML: enum, uuid, or maxLength up to ${PARAMETER_CHARACTERS_MAX / 2})`
    : undefined;
}

/** Returns the patterns that a schema declares for its texts. */
export function patternsOf(schema: Schema): readonly RegExp[] {
  return leavesOf(schema, "out")
    .flatMap(checksOf)
    .map(writtenPattern)
    .filter((pattern) => pattern !== undefined);
}

const SCALARS = new Set(["number", "int", "boolean", "bigint", "enum", "literal", "null", "template_literal"]);

function isBounded(leaf: Schema): boolean {
  const { type } = defOf(leaf);
  if (SCALARS.has(type)) return true;
  if (type !== "string") return false;
  const checks = checksOf(leaf);
  const isShort = (maximumOf(checks) ?? Number.POSITIVE_INFINITY) <= PARAMETER_CHARACTERS_MAX;
  return isShort || boundedFormatsOf(checks).length > 0;
}
