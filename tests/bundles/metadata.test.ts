import { expect, test } from "bun:test";
import { verifierKeyOf } from "../../src/audit/chain/signed-note.ts";
import { keyName, readKeys } from "../../src/bundles/metadata.ts";
import { newKey } from "../support/bundle-fleet.ts";

const [one, other] = [newKey(), newKey()];
const line = verifierKeyOf("release", other.publicKey);
const namesIn = (text: string) => readKeys(text).map(keyName);

test("a file of keys holds both forms, and a key in both forms is one key", () => {
  expect(namesIn(`${one.pem}# the next one\n${line}\n`)).toEqual([keyName(one.publicKey), keyName(other.publicKey)]);
  expect(namesIn(`${other.pem}${line}\n`)).toEqual([keyName(other.publicKey)]);
});

test.each([
  ["a damaged key next to a whole one", one.pem + other.pem.replace("-----END", "END")],
  ["text next to a key", `${one.pem}key of the release team\n`],
  ["nothing", "# nothing\n"],
])("refused: %s", (_title, text) => {
  expect(() => readKeys(text)).toThrow();
});
