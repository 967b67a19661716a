/** What of the serialized file descriptors the descriptor objects that proto-loader hands out do not tell. */
export interface DescriptorFacts {
  /**
   * Field name to the name of its oneof, per message by full name. The objects show index 0 for a field of the first
   * oneof and for a field of none alike.
   */
  readonly oneofMembers: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** The full names of a method's messages, per path `/package.Service/Method`. The objects tell the last part alone. */
  readonly methodTypes: ReadonlyMap<string, { readonly request: string; readonly response: string }>;
}

const WIRE = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

// Field numbers of google/protobuf/descriptor.proto.
const FILE = { package: 2, message: 4, service: 6 } as const;
const MESSAGE = { name: 1, field: 2, nested: 3, oneof: 8 } as const;
const FIELD = { name: 1, oneofIndex: 9 } as const;
const ONEOF = { name: 1 } as const;
const SERVICE = { name: 1, method: 2 } as const;
const METHOD = { name: 1, request: 2, response: 3 } as const;

interface WireField {
  readonly number: number;
  readonly value: number | Buffer;
}

function readVarint(bytes: Buffer, start: number): { readonly value: number; readonly next: number } {
  let value = 0;
  let factor = 1;
  for (let at = start; at < bytes.length; at += 1) {
    const byte = bytes.readUInt8(at);
    value += (byte & 0x7f) * factor;
    if (byte < 0x80) return { value, next: at + 1 };
    factor *= 128;
  }
  throw new Error("truncated descriptor");
}

function readFields(bytes: Buffer): readonly WireField[] {
  const fields: WireField[] = [];
  let at = 0;
  while (at < bytes.length) {
    const tag = readVarint(bytes, at);
    const number = Math.floor(tag.value / 8);
    const wire = tag.value % 8;
    at = tag.next;
    if (wire === WIRE.fixed64 || wire === WIRE.fixed32) {
      at += wire === WIRE.fixed64 ? 8 : 4;
      continue;
    }
    if (wire !== WIRE.varint && wire !== WIRE.bytes) throw new Error("unknown wire type in a descriptor");
    const length = readVarint(bytes, at);
    at = length.next;
    if (wire === WIRE.varint) {
      fields.push({ number, value: length.value });
      continue;
    }
    fields.push({ number, value: bytes.subarray(at, at + length.value) });
    at += length.value;
  }
  return fields;
}

function textOf(fields: readonly WireField[], number: number): string {
  const value = fields.find((field) => field.number === number)?.value;
  return Buffer.isBuffer(value) ? value.toString("utf8") : "";
}

function partsOf(fields: readonly WireField[], number: number): readonly (readonly WireField[])[] {
  return fields.flatMap((field) =>
    field.number === number && Buffer.isBuffer(field.value) ? [readFields(field.value)] : [],
  );
}

function qualified(scope: string, name: string): string {
  return scope === "" ? name : `${scope}.${name}`;
}

function collectMessage(
  message: readonly WireField[],
  scope: string,
  found: Map<string, ReadonlyMap<string, string>>,
): void {
  const fullName = qualified(scope, textOf(message, MESSAGE.name));
  const oneofs = partsOf(message, MESSAGE.oneof).map((oneof) => textOf(oneof, ONEOF.name));
  const members = new Map<string, string>();
  for (const field of partsOf(message, MESSAGE.field)) {
    const index = field.find((part) => part.number === FIELD.oneofIndex)?.value;
    const oneof = typeof index === "number" ? oneofs[index] : undefined;
    if (oneof !== undefined) members.set(textOf(field, FIELD.name), oneof);
  }
  found.set(fullName, members);
  for (const nested of partsOf(message, MESSAGE.nested)) collectMessage(nested, fullName, found);
}

function typeName(fields: readonly WireField[], number: number): string {
  const name = textOf(fields, number);
  return name.startsWith(".") ? name.slice(1) : name;
}

/** Reads the serialized `FileDescriptorProto`s that proto-loader attaches to every definition. */
export function readFileDescriptors(fileDescriptors: readonly Buffer[]): DescriptorFacts {
  const oneofMembers = new Map<string, ReadonlyMap<string, string>>();
  const methodTypes = new Map<string, { readonly request: string; readonly response: string }>();
  for (const bytes of fileDescriptors) {
    const file = readFields(bytes);
    const scope = textOf(file, FILE.package);
    for (const message of partsOf(file, FILE.message)) collectMessage(message, scope, oneofMembers);
    for (const service of partsOf(file, FILE.service)) {
      const serviceName = qualified(scope, textOf(service, SERVICE.name));
      for (const method of partsOf(service, SERVICE.method)) {
        methodTypes.set(`/${serviceName}/${textOf(method, METHOD.name)}`, {
          request: typeName(method, METHOD.request),
          response: typeName(method, METHOD.response),
        });
      }
    }
  }
  return { oneofMembers, methodTypes };
}
