import type { Json } from "../../../core/types.ts";
import { type Declarations, type MessageShape, MessageShapes } from "../contract/declarations.ts";
import { AnswerReader, type FieldBudget } from "./answer-reader.ts";
import { type Difference, type EncodedMessage, RequestWriter } from "./request-writer.ts";
import { AnyTypes } from "./well-known.ts";

/** Converts the messages of one contract between JSON and bytes. */
export class MessageCodec {
  readonly shapes: MessageShapes;
  readonly anyTypes: AnyTypes;
  readonly #writer: RequestWriter;
  readonly #reader: AnswerReader;

  /** @param anyTypes full names of the messages that a google.protobuf.Any may hold */
  constructor(declarations: Declarations, anyTypes: readonly string[] = []) {
    this.shapes = new MessageShapes(declarations, anyTypes);
    this.anyTypes = new AnyTypes(anyTypes, this.shapes);
    this.#writer = new RequestWriter(this.anyTypes);
    this.#reader = new AnswerReader(this.anyTypes);
  }

  /** Encodes a request, or returns why it does not fit the contract. */
  encode(input: unknown, shape: MessageShape): EncodedMessage | Difference {
    return this.#writer.encode(input, shape);
  }

  /** Returns the bytes of a message that fits the contract. */
  bytes(message: unknown, shape: MessageShape): Buffer {
    const encoded = this.encode(message, shape);
    if ("reason" in encoded) throw new Error(`${shape.fullName}: ${encoded.field} ${encoded.reason}`);
    return encoded.bytes;
  }

  /**
   * Decodes an answer into its JSON form.
   *
   * @throws {Error} when the bytes are not a valid message of the type, or have more fields than the budget
   */
  decode(bytes: Buffer, shape: MessageShape, budget?: FieldBudget): Json {
    return this.#reader.read(bytes, shape, budget);
  }

  /** Returns the shape of a message that is declared. */
  shape(fullName: string): MessageShape {
    const shape = this.shapes.find(fullName);
    if (shape === undefined) throw new Error(`${fullName} is not declared`);
    return shape;
  }
}
