import { expect, test } from "bun:test";
import { Contract } from "../../src/targets/grpc/contract/contract.ts";
import { withReflection } from "../../src/targets/grpc/contract/reflection.ts";
import { fileDescriptor, oneMethodFile } from "../targets/grpc/support/descriptors.ts";
import { startReflecting } from "../targets/grpc/support/reflecting.ts";

const TARGET = { system: "large", grpc: { package: "one", service: "S", method: "Do" } } as const;
const MESSAGES = 5_000;
const FIELDS = 20;

/** As large as the largest that are known: a hundred thousand fields. */
function largeFile(): Uint8Array {
  const field = Array.from({ length: FIELDS }, (_, index) => ({
    name: `field_with_a_name_${index}`,
    jsonName: `fieldWithAName${index}`,
    number: index + 1,
    label: "LABEL_OPTIONAL",
    type: index % 2 === 0 ? "TYPE_STRING" : "TYPE_INT64",
  }));
  const more = Array.from({ length: MESSAGES }, (_, index) => ({ name: `Message${index}`, field }));
  return fileDescriptor(oneMethodFile({}, { messageType: [{ name: "Q" }, ...more] }));
}

test("a service with a very large contract can be queried for it", async () => {
  const bytes = largeFile();
  const server = await startReflecting({
    answer: () => ({ fileDescriptorResponse: { fileDescriptorProto: [bytes] } }),
  });
  const problems: string[] = [];
  const system = {
    endpoint: `127.0.0.1:${server.port}`,
    plaintext: true,
    reflection: true,
    maxMessageBytes: 1_000_000,
  };
  const systems = await withReflection(new Map([["large", system]]), [{ target: TARGET }], problems);
  server.close();
  expect(problems).toEqual([]);
  expect(new Contract("large", systems?.get("large") ?? {}).method(TARGET)).toHaveProperty("path", "/one.S/Do");
});
