import { expect, test } from "bun:test";
import { toToolResultMessage } from "../../../src/index.ts";

const CALL = { tool: "bash", callId: "call-1" };
const part = { status: "success", truncated: true, result: { output: "a" } } as const;

test.each([
  ["a whole answer", { status: "success", result: 1 }, { untrusted: true, output: 1 }],
  ["a part of an answer", part, { untrusted: true, truncated: true, output: { output: "a" } }],
] as const)("%s as a message for the model", (_title, result, want) => {
  const [openai, google] = (["openai", "google"] as const).map((format) =>
    toToolResultMessage(CALL, result, { format }),
  );
  expect(JSON.parse((openai as { readonly content: string }).content)).toEqual(want);
  expect(google).toMatchObject({ parts: [{ functionResponse: { name: "bash", response: want } }] });
});
