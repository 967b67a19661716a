import { buildClientSchema, buildSchema, type GraphQLSchema, type IntrospectionQuery, validateSchema } from "graphql";
import { sha256Hex } from "../../../core/digest.ts";
import { systemCode } from "../../../core/error-text.ts";
import { isTable } from "../../../core/json.ts";
import { printable } from "../../../core/printable.ts";
import { parseDocumentJson, StrictJsonError, whyUnusable } from "../../../core/strict-json.ts";

const BYTES_MAX = 16_777_216;
const TOKENS_MAX = 3_000_000;
const JSON_LIMITS = { depthMax: 128, keysMax: 5_000_000, elementsMax: 5_000_000 } as const;

/** A schema that is kept next to the configuration. */
export interface SavedSchema {
  readonly schema: GraphQLSchema;
  /** Hex SHA-256 of the file. */
  readonly sha256: string;
}

/** Reads the file of a schema. @throws {Error} that says what is wrong with it */
export function readSchemaFile(read: () => Buffer): SavedSchema {
  let bytes: Buffer;
  try {
    bytes = read();
  } catch (error) {
    throw new Error(`cannot be read (${systemCode(error)})`);
  }
  return readSchema(bytes);
}

/** Reads a schema in SDL, or the answer of an introspection query. @throws {Error} that says what is wrong with it */
export function readSchema(bytes: Buffer): SavedSchema {
  if (bytes.length > BYTES_MAX) throw new Error(`is larger than ${BYTES_MAX} bytes`);
  const text = textOf(bytes);
  const schema = /^\s*\{/.test(text) ? fromIntrospection(text) : fromSdl(text);
  const [problem] = validateSchema(schema);
  if (problem !== undefined) throw new Error(`is not a valid schema: ${shownMessage(problem)}`);
  // The library accepts it; then a query could name what a mutation does.
  if (schema.getQueryType() === schema.getMutationType())
    throw new Error("is not a valid schema: queries and mutations have the same type");
  return { schema, sha256: sha256Hex(bytes) };
}

function textOf(bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Error("is not UTF-8");
  }
}

function fromSdl(text: string): GraphQLSchema {
  try {
    return buildSchema(text, { maxTokens: TOKENS_MAX, noLocation: true });
  } catch (error) {
    throw new Error(`is neither a schema in SDL nor an introspection result: ${shownMessage(error)}`);
  }
}

function fromIntrospection(text: string): GraphQLSchema {
  const answer = json(text);
  const data = isTable(answer) && isTable(answer["data"]) ? answer["data"] : answer;
  if (!isTable(data) || !isTable(data["__schema"]))
    throw new Error("is JSON without __schema: save an introspection result");
  try {
    return buildClientSchema(data as unknown as IntrospectionQuery);
  } catch (error) {
    throw new Error(`is not an introspection result: ${shownMessage(error)}`);
  }
}

function json(text: string): unknown {
  try {
    return parseDocumentJson(text, JSON_LIMITS);
  } catch (error) {
    if (!(error instanceof StrictJsonError)) throw error;
    throw new Error(`is not JSON that can be used: ${whyUnusable(error)}`);
  }
}

const MESSAGE_CHARACTERS_MAX = 300;

/** Returns the message of an error of the library, which quotes the text that it has read. */
export function shownMessage(error: unknown): string {
  if (error instanceof RangeError) return "it is nested too deeply";
  const message = printable(error instanceof Error ? error.message : String(error)).replace(/\.$/, "");
  return message.length > MESSAGE_CHARACTERS_MAX ? `${message.slice(0, MESSAGE_CHARACTERS_MAX)}…` : message;
}
