import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readS3Credentials, signedHeaders } from "../../../src/audit/archive/s3-client.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-s3-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** The examples of Amazon's documentation ("Signature Calculations for the Authorization Header: Single Chunk"). */
const EXAMPLE = {
  id: "AKIAIOSFODNN7EXAMPLE",
  secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  sessionToken: undefined,
  region: "us-east-1",
  nowMs: Date.parse("2013-05-24T00:00:00Z"),
};

test.each([
  [
    "an object",
    { method: "GET", path: "/test.txt", headers: { range: "bytes=0-9" }, body: undefined },
    "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
  ],
  [
    "an object that is written",
    {
      method: "PUT",
      path: "/test%24file.text",
      headers: { date: "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY" },
      body: Buffer.from("Welcome to Amazon S3."),
    },
    "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
  ],
  [
    "a list of objects",
    { method: "GET", path: "/?max-keys=2&prefix=J", headers: {}, body: undefined },
    "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
  ],
])("the signature of Amazon's example: %s", (_, { method, path, headers, body }, signature) => {
  const url = new URL(path, "https://examplebucket.s3.amazonaws.com");
  const { authorization } = signedHeaders(
    { method, url, headers: { ...headers } as Record<string, string>, body },
    EXAMPLE,
  );
  expect(authorization).toEndWith(`, Signature=${signature}`);
});

test("the token of temporary credentials is sent and signed", () => {
  const request = { method: "GET", url: new URL("https://s3.example/b/k"), headers: {}, body: undefined };
  const headers = signedHeaders(request, { ...EXAMPLE, sessionToken: "the-token" });
  expect(headers).toMatchObject({ "x-amz-security-token": "the-token" });
  expect(headers.authorization).toContain("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,");
});

const KEYS = "aws_access_key_id = AKID\naws_secret_access_key=a/b+c=\n";
test.each([
  ["a profile", `[default]\n${KEYS}`, { id: "AKID", secret: "a/b+c=", sessionToken: undefined }],
  [
    "comments, other settings and line ends of Windows",
    `# of the archive\r\nregion = eu\r\n${KEYS}`.replaceAll("\n", "\r\n"),
    { id: "AKID" },
  ],
  ["temporary ones", `${KEYS}aws_session_token = t\n`, { sessionToken: "t" }],
])("credentials: %s", (_, text, want) => {
  const path = join(folder, "credentials");
  writeFileSync(path, text);
  expect(readS3Credentials(path)).toMatchObject(want);
});

test.each([
  ["no secret", "aws_access_key_id = AKID\n", "needs aws_access_key_id and aws_secret_access_key"],
  ["two profiles", `[a]\n${KEYS}[b]\n${KEYS}`, "aws_access_key_id appears twice: keep one profile"],
  ["another text", "AKID:secret", "needs aws_access_key_id and aws_secret_access_key"],
  [
    "characters that a header must not have",
    `${KEYS}aws_session_token = \u00fc\n`,
    "holds characters that credentials cannot have",
  ],
])("refused credentials: %s", (_, text, problem) => {
  const path = join(folder, "refused");
  writeFileSync(path, text);
  expect(() => readS3Credentials(path)).toThrow(new Error(problem));
});

test("credentials that are missing or a folder cannot be read", () => {
  for (const path of [join(folder, "none"), folder]) expect(() => readS3Credentials(path)).toThrow("cannot be read");
});
