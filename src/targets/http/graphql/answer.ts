import { AmbiguousValue } from "../../../core/ambiguous-value.ts";
import { Refusal } from "../../../core/errors.ts";
import { isTable } from "../../../core/json.ts";
import type { EgressAnswer } from "../../../egress/request.ts";
import { type ApiCall, failureOf, HttpFailure, readResult } from "../answer.ts";
import { ERROR_PATHS } from "./manifest.ts";

/** Members of an answer by name. The path of an error consists of them. */
export interface AnswerPaths {
  /** Levels of lists around the member. */
  readonly lists: number;
  readonly mayBeMissing: boolean;
  readonly members: ReadonlyMap<string, AnswerPaths>;
}

/** An operation that was checked with the system's schema. */
export interface GraphqlOperation {
  readonly type: "query" | "mutation";
  readonly name: string;
  readonly document: string;
  /** Hex SHA-256 of the document. */
  readonly sha256: string;
  /** Whether data with errors is accepted. */
  readonly isPartial: boolean;
  /** The members of `data`. */
  readonly members: AnswerPaths["members"];
}

type Answer = Readonly<Record<string, unknown>>;

const WITHHELD = "The service answered with errors, so that its answer was withheld: it may be incomplete.";
const MESSAGES_MAX = 10;
const MESSAGE_CHARACTERS_MAX = 400;
/** Most errors of an answer. One with more is refused: without all paths, nobody could tell which nulls come from errors. */
const ERROR_PATHS_MAX = 1_000;
const CAUSE_PATHS_MAX = 5;
const PATH_STEPS_MAX = 64;

/**
 * Returns the data of an answer, never its extensions.
 *
 * @throws {HttpFailure} for an answer with errors, and for one that does not show whether a change was made
 * @throws {Refusal} INVALID_OUTPUT for one that is not GraphQL, or that shows that a change was made and lacks parts
 */
export function readData(answer: EgressAnswer, operation: GraphqlOperation): unknown {
  const unreadable = (because: string): Error => unreadableError(answer, operation, because);
  const body = objectIn(answer, operation);
  const errors = errorsIn(body);
  if (errors === undefined) throw unreadable("errors is not a list");
  const { data } = body;
  if (![undefined, null, false].includes(body["hasNext"] as null)) throw unreadable("only the first part of several");
  if (errors.length === 0) {
    if (!isData(data)) throw unreadable("neither data nor errors");
    if (!isWhole(data, operation)) throw unreadable("data lacks a member of the document");
    return dataOf(data, operation);
  }
  if (operation.type === "mutation" && !isAnswered(data, operation))
    throw failed(answer, errors, { operation, meaning: "unknown", wasExecuted: "data" in body });
  const paths = operation.isPartial && isData(data) ? pathsOf(errors, operation) : undefined;
  if (paths !== undefined) return { ...dataOf(data as Answer, operation), [ERROR_PATHS]: paths };
  if (operation.type === "query")
    throw failed(answer, errors, { operation, meaning: "refused", wasExecuted: "data" in body });
  throw new Refusal("INVALID_OUTPUT", "The change was made, but the service's answer has errors and was withheld.", {
    cause: { operation: operation.name, because: causeOf(errors, operation) },
  });
}

/** Returns the failure that a status other than a success means, with the messages of GraphQL as its only text. */
export function failureOfStatus(
  answer: EgressAnswer,
  operation: GraphqlOperation,
  call: Pick<ApiCall, "means" | "now">,
): HttpFailure {
  const body = bodyOf(answer);
  const text = messagesOf(errorsIn(body) ?? []);
  const { meaning, status, httpStatus, origin, sent, waitMs } = failureOf(answer, call);
  // An answer with data, even null, was executed.
  const isUnclear = operation.type === "mutation" && meaning !== "unavailable" && "data" in body;
  return new HttpFailure({
    meaning: isUnclear ? "unknown" : meaning,
    status,
    origin,
    sent,
    httpStatus,
    text,
    waitMs,
  });
}

/** Returns the failure of an answer whose body is too large to be read; undefined for a query, which has changed nothing. */
export function failureOfSize({ type }: GraphqlOperation): HttpFailure | undefined {
  if (type === "query") return undefined;
  return new HttpFailure({ meaning: "unknown", status: "UNKNOWN", origin: "service", sent: true, reason: "too large" });
}

/** Returns whether an answer shows that a mutation was executed, whatever its status: it must not be sent again. */
export function wasExecuted(answer: EgressAnswer, { type }: GraphqlOperation): boolean {
  return type === "mutation" && "data" in bodyOf(answer);
}

function bodyOf(answer: EgressAnswer): Answer {
  try {
    const body = readResult(answer, undefined);
    return isTable(body) ? body : {};
  } catch (error) {
    if (error instanceof Refusal) return {};
    throw error;
  }
}

function objectIn(answer: EgressAnswer, operation: GraphqlOperation): Answer {
  try {
    const body = readResult(answer, undefined);
    if (isTable(body) && !Array.isArray(body)) return body;
  } catch (error) {
    if (!(error instanceof Refusal) || operation.type === "query") throw error;
    throw unreadableError(answer, operation, "not GraphQL");
  }
  throw unreadableError(answer, operation, "not an object");
}

/** Returns the errors of an answer; undefined when they are not a list. Some services write an empty list, or null, for none. */
function errorsIn({ errors }: Answer): readonly unknown[] | undefined {
  if (errors === undefined || errors === null) return [];
  return Array.isArray(errors) ? errors : undefined;
}

function isData(data: unknown): data is Answer {
  return isTable(data) && !Array.isArray(data) && !AmbiguousValue.is(data);
}

/** No member of partial data can look like the paths of its errors. */
function dataOf(data: Answer, { isPartial }: GraphqlOperation): Answer {
  if (!isPartial || !Object.hasOwn(data, ERROR_PATHS)) return data;
  const { [ERROR_PATHS]: _, ...own } = data;
  return own;
}

/** Returns whether no member is missing that the document always selects: the answer may be another operation's. */
function isWhole(data: Answer, { members }: GraphqlOperation): boolean {
  return [...members].every(([key, { mayBeMissing }]) => mayBeMissing || Object.hasOwn(data, key));
}

/** Returns whether each part of a change was answered: a null may mean that it failed, or that only its answer did. */
function isAnswered(data: unknown, { members }: GraphqlOperation): boolean {
  if (!isData(data)) return false;
  return [...members].every(([key, { mayBeMissing }]) => {
    const value = Object.hasOwn(data, key) ? data[key] : undefined;
    return value === undefined ? mayBeMissing : value !== null;
  });
}

interface Failing {
  readonly operation: GraphqlOperation;
  readonly meaning: "refused" | "unknown";
  /** Without a member `data`, the service has refused the request before it did anything. */
  readonly wasExecuted: boolean;
}

function failed({ status }: EgressAnswer, errors: readonly unknown[], failing: Failing): HttpFailure {
  const { operation, meaning, wasExecuted } = failing;
  return new HttpFailure({
    meaning,
    status: wasExecuted ? "UNKNOWN" : "INVALID_ARGUMENT",
    origin: "service",
    sent: true,
    httpStatus: status,
    text: messagesOf(errors),
    reason: causeOf(errors, operation),
    words: wasExecuted && meaning === "refused" ? WITHHELD : undefined,
  });
}

function causeOf(errors: readonly unknown[], operation: GraphqlOperation): string {
  const paths = errors.flatMap((error) => pathOf(error, operation) ?? []).slice(0, CAUSE_PATHS_MAX);
  return `GraphQL errors: ${errors.length}${paths.length === 0 ? "" : `, at ${paths.join(", ")}`}`;
}

/** Returns the paths of all errors; undefined when one does not say which part of the answer it is about, or they are too many. */
function pathsOf(errors: readonly unknown[], operation: GraphqlOperation): readonly string[] | undefined {
  const paths = errors.map((error) => pathOf(error, operation));
  const known = new Set(paths.filter((path) => path !== undefined));
  return paths.includes(undefined) || known.size > ERROR_PATHS_MAX ? undefined : [...known];
}

/** Returns the path of an error as text; undefined for one that the document does not have. */
function pathOf(error: unknown, { members }: GraphqlOperation): string | undefined {
  const steps: unknown = isTable(error) ? error["path"] : undefined;
  if (!Array.isArray(steps) || steps.length === 0 || steps.length > PATH_STEPS_MAX) return undefined;
  let [at, lists, path]: [AnswerPaths["members"], number, string] = [members, 0, ""];
  for (const step of steps as readonly unknown[]) {
    if (typeof step === "number" && Number.isSafeInteger(step) && step >= 0 && lists > 0) {
      lists -= 1;
      path += `[${step}]`;
      continue;
    }
    const member = typeof step === "string" ? at.get(step) : undefined;
    if (member === undefined || lists > 0) return undefined;
    at = member.members;
    lists = member.lists;
    path += `${path === "" ? "" : "."}${String(step)}`;
  }
  return path;
}

function messagesOf(errors: readonly unknown[]): string {
  return errors
    .slice(0, MESSAGES_MAX)
    .flatMap((error) =>
      isTable(error) && typeof error["message"] === "string" ? [error["message"].slice(0, MESSAGE_CHARACTERS_MAX)] : [],
    )
    .join("\n");
}

/** Success of HTTP is not success of GraphQL: without a readable answer, the outcome of a change is unknown. */
function unreadableError({ status, body }: EgressAnswer, { type }: GraphqlOperation, because: string): Error {
  if (type === "mutation") {
    const reason = because;
    return new HttpFailure({
      meaning: "unknown",
      status: "UNKNOWN",
      origin: "service",
      sent: true,
      httpStatus: status,
      reason,
    });
  }
  return new Refusal("INVALID_OUTPUT", "The service's answer could not be read.", {
    cause: { answerBytes: body.length, because },
  });
}
