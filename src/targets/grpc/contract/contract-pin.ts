import { sha256Hex } from "../../../core/digest.ts";
import type { MethodDeclaration } from "./declarations.ts";
import { type FieldShape, type MessageShape, reachable, type ValueShape } from "./message-shape.ts";

/** Raised when the same contract would give another hash. */
const FORM = "stc/grpc-contract/v1";

/** A method that some tool calls. */
export interface UsedMethod {
  readonly path: string;
  readonly declared: MethodDeclaration;
  readonly request: MessageShape;
  readonly response: MessageShape;
}

/**
 * Hex SHA-256 of the part of a contract that is used: the methods, and every message and enum that can occur in them. What
 * it was read from, the order of its parts, comments, options and other methods make no difference. Packing makes none
 * either, since a reader takes both forms.
 *
 * @param anyTypes the messages that an Any may hold
 */
export function contractSha256(methods: Iterable<UsedMethod>, anyTypes: readonly MessageShape[]): string {
  const used = [...methods].sort((left, right) => compare(left.path, right.path));
  const messages = [...reachable(...used.flatMap(({ request, response }) => [request, response]), ...anyTypes)];
  const enums = new Map<string, ReadonlyMap<string, number>>();
  for (const { fields } of messages) {
    for (const { value } of fields.values()) if (value.kind === "enum") enums.set(value.fullName, value.numbers);
  }
  return sha256Hex(
    JSON.stringify([
      FORM,
      used.map(methodForm),
      messages.sort((left, right) => compare(left.fullName, right.fullName)).map(messageForm),
      [...enums].sort(([left], [right]) => compare(left, right)).map(([name, numbers]) => [name, enumForm(numbers)]),
      anyTypes.map(({ fullName }) => fullName).sort(compare),
    ]),
  );
}

function compare(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

function methodForm({ path, declared, request, response }: UsedMethod): readonly unknown[] {
  return [path, request.fullName, response.fullName, declared.requestStream, declared.responseStream];
}

function messageForm({ fullName, fields, oneofOf, oneofs }: MessageShape): readonly unknown[] {
  const inOrder = [...fields].sort(([, left], [, right]) => left.number - right.number);
  return [
    fullName,
    inOrder.map(([name, field]) => {
      const oneof = oneofOf.get(name);
      return fieldForm(name, field, oneof !== undefined && oneofs.has(oneof) ? oneof : null);
    }),
  ];
}

function fieldForm(name: string, field: FieldShape, oneof: string | null): readonly unknown[] {
  return [field.number, name, field.label, field.key ?? null, typeForm(field.value), field.presence, oneof];
}

function typeForm(value: ValueShape): string {
  if (value.kind === "scalar") return value.proto;
  return value.kind === "enum" ? `.${value.fullName}` : `.${value.message.fullName}`;
}

function enumForm(numbers: ReadonlyMap<string, number>): readonly (readonly [string, number])[] {
  return [...numbers].sort(([left, one], [right, other]) => one - other || compare(left, right));
}
