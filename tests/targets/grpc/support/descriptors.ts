import protobuf from "protobufjs";
import descriptorJson from "protobufjs/google/protobuf/descriptor.json" with { type: "json" };

const root = protobuf.Root.fromJSON(descriptorJson);
const FILE = root.lookupType("google.protobuf.FileDescriptorProto");
const SET = root.lookupType("google.protobuf.FileDescriptorSet");

/** Returns a serialized `FileDescriptorProto`. */
export function fileDescriptor(file: object): Uint8Array {
  return FILE.encode(FILE.fromObject({ syntax: "proto3", ...file })).finish();
}

export function descriptorSet(files: readonly object[]): Uint8Array {
  return SET.encode(SET.fromObject({ file: files.map((file) => ({ syntax: "proto3", ...file })) })).finish();
}

/** Returns the files of a serialized set, each serialized. */
export function filesOf(set: Uint8Array): readonly { readonly name: string; readonly bytes: Uint8Array }[] {
  const { file } = SET.decode(set) as unknown as { readonly file: readonly (protobuf.Message & { name: string })[] };
  return file.map((one) => ({ name: one.name, bytes: FILE.encode(one).finish() }));
}

const TEXT = { type: "TYPE_STRING", label: "LABEL_OPTIONAL" };
/** Returns one string field for each name. */
export const texts = (...names: readonly string[]) =>
  names.map((name, index) => ({ name, number: index + 1, ...TEXT }));

/** Returns a file with one service, whose one method `Do` takes and returns `Q`. */
export function oneMethodFile(message: object, changes: object = {}): object {
  return {
    name: "one.proto",
    package: "one",
    messageType: [{ name: "Q", ...message }],
    service: [{ name: "S", method: [{ name: "Do", inputType: ".one.Q", outputType: ".one.Q" }] }],
    ...changes,
  };
}
