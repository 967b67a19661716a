import { listed, nearest } from "../../../core/nearest.ts";
import type { Json } from "../../../core/types.ts";
import { RequestCodec } from "../codec/codec.ts";
import { type MessageShape, type MessageShapes, reachable } from "./message-shape.ts";
import { Unfit, WELL_KNOWN, type WellKnown } from "./well-known.ts";
import type { ResponseCodec, WireTypes } from "./wire-types.ts";

const TYPE_PREFIX = "type.googleapis.com/";
/** Maximum nesting: each level of an Any inside an Any is copied once more. */
const NESTED_MAX = 4;

interface Codecs {
  readonly shape: MessageShape;
  readonly request: RequestCodec;
  readonly response: ResponseCodec;
}

interface Parts {
  readonly shapes: MessageShapes;
  readonly wire: WireTypes;
}

/** Codecs for the messages that a google.protobuf.Any may hold, by full name. No other message is packed or unpacked. */
export class AnyTypes {
  /** Messages and fields that the contract does not declare or this version cannot carry. */
  readonly problems: readonly string[];
  readonly #names: readonly string[];
  readonly #parts: Parts;
  readonly #codecs = new Map<string, Codecs>();
  #depth = 0;

  constructor(names: readonly string[], parts: Parts) {
    this.#parts = parts;
    this.#names = names;
    this.problems = names.flatMap((name) => {
      const shape = parts.shapes.find(name);
      if (shape === undefined) return [`the contract has no message ${name}`];
      return [...reachable(shape)].flatMap(({ unsupported }) => unsupported);
    });
  }

  shapes(): readonly MessageShape[] {
    return this.#names.flatMap((name) => this.#parts.shapes.find(name) ?? []);
  }

  /** Writes an Any of a request, and reads it back. */
  readonly sent: WellKnown = {
    toMessage: (json) => this.#pack(json),
    toJson: (message) => this.#unpack(message, ({ request }, bytes) => request.decode(bytes)),
  };

  /** Reads an Any of an answer. For a message that is not declared, only the type's name is returned. */
  readonly received: WellKnown = {
    toMessage: this.sent.toMessage,
    toJson: (message) => this.#unpack(message, ({ response }, bytes) => response.decode(bytes)),
  };

  #codecsOf(name: string): Codecs | undefined {
    const known = this.#codecs.get(name);
    if (known !== undefined || !this.#names.includes(name)) return known;
    const shape = this.#parts.shapes.find(name);
    if (shape === undefined) return undefined;
    const request = new RequestCodec(shape, this.#parts.wire.request(shape), this.sent);
    const response = this.#parts.wire.response(shape, this.received);
    const made = { shape, request, response };
    this.#codecs.set(name, made);
    return made;
  }

  #pack(json: unknown): unknown {
    if (this.#names.length === 0) throw new Unfit("is a google.protobuf.Any, and anyTypes declares none");
    if (typeof json !== "object" || json === null || Array.isArray(json)) throw new Unfit("is not an object");
    const { "@type": url, ...fields } = json as Readonly<Record<string, unknown>>;
    const name = typeof url === "string" && url.startsWith(TYPE_PREFIX) ? url.slice(TYPE_PREFIX.length) : "";
    const codecs = this.#codecsOf(name);
    if (codecs === undefined) {
      const known = listed(nearest(name, this.#names).map((one) => `${TYPE_PREFIX}${one}`));
      throw new Unfit(`has an @type that is not declared; declared: ${known}`);
    }
    return this.#nested(() => {
      const encoded = codecs.request.encode(contentOf(fields, codecs.shape));
      if ("reason" in encoded) throw new Unfit(`${encoded.field} ${encoded.reason}`.trim());
      return { typeUrl: url, value: encoded.bytes.toString("base64") };
    });
  }

  #unpack(message: Readonly<Record<string, unknown>>, decode: (codecs: Codecs, bytes: Buffer) => Json): Json {
    const { typeUrl, value } = message;
    if (typeof typeUrl !== "string" || typeUrl === "") return {};
    const codecs = this.#codecsOf(typeUrl.slice(typeUrl.lastIndexOf("/") + 1));
    if (codecs === undefined) return { "@type": typeUrl };
    return this.#nested((): Json => {
      const content = decode(codecs, Buffer.from(typeof value === "string" ? value : "", "base64"));
      const isFields = typeof content === "object" && content !== null && !Array.isArray(content);
      if (isFields && !isSpecial(codecs.shape)) return { "@type": typeUrl, ...content };
      return { "@type": typeUrl, value: content };
    });
  }

  #nested<Result>(act: () => Result): Result {
    if (this.#depth >= NESTED_MAX) throw new Unfit("holds more of its kind inside each other than are followed");
    this.#depth += 1;
    try {
      return act();
    } finally {
      this.#depth -= 1;
    }
  }
}

function isSpecial({ fullName }: MessageShape): boolean {
  return WELL_KNOWN.has(fullName);
}

/** Returns the content of an Any: a message with a JSON form of its own is under `value`. */
function contentOf(fields: Readonly<Record<string, unknown>>, shape: MessageShape): unknown {
  if (!isSpecial(shape)) return fields;
  if (Object.keys(fields).some((key) => key !== "value"))
    throw new Unfit("has its content under value, and nothing else");
  return fields["value"];
}
