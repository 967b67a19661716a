import { describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import fc from "fast-check";
import { readCheckpoint, splitNotes } from "../../../src/audit/chain/checkpoint.ts";
import { readPublicKey, signNote, verifierKeyOf, verifyNote } from "../../../src/audit/chain/signed-note.ts";

/** The example of the reference implementation's documentation. */
const VERIFIER_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
const TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n";
const SIGNATURE = "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=";

describe("a signed note", () => {
  const key = readPublicKey(VERIFIER_KEY);
  const signed = (text: string, signatures: string) => verifyNote({ text, signatures }, "PeterNeumann", [key]);

  test("of another implementation is valid here", () => {
    expect(signed(TEXT, `— PeterNeumann ${SIGNATURE}`)).toBe("valid");
    expect(verifierKeyOf("PeterNeumann", key)).toBe(VERIFIER_KEY);
  });

  test("may carry signatures of others", () => {
    expect(signed(TEXT, `— witness.example AAAAAAAA\n— PeterNeumann ${SIGNATURE}`)).toBe("valid");
    expect(signed(TEXT, "— witness.example AAAAAAAA")).toBe("unknown key");
  });

  test.each([
    ["another text", `${TEXT}x\n`, `— PeterNeumann ${SIGNATURE}`],
    ["another signature", TEXT, `— PeterNeumann ${SIGNATURE.replace("QxV", "QxW")}`],
    ["a line that is no signature", TEXT, `-- PeterNeumann ${SIGNATURE}`],
    ["base64 with something left over", TEXT, `— PeterNeumann ${SIGNATURE}A`],
    [
      "a second signature of the same key that is wrong",
      TEXT,
      `— PeterNeumann ${SIGNATURE}\n— PeterNeumann ${SIGNATURE.replace("QxV", "QxW")}`,
    ],
    ["the key's id alone", TEXT, "— PeterNeumann x08gow=="],
    ["no signature", TEXT, ""],
  ])("with %s is not valid", (_name, text, signatures) => {
    expect(signed(text, signatures)).toBe("bad signature");
  });

  test.each([
    ["an id that does not go with the key", VERIFIER_KEY.replace("c74f", "c74e")],
    ["a key of another kind", VERIFIER_KEY.replace("ARpc", "Arpc")],
    ["nothing", ""],
    [
      "an RSA key",
      String(generateKeyPairSync("rsa", { modulusLength: 2048 }).publicKey.export({ type: "spki", format: "pem" })),
    ],
    ["a private key", String(generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }))],
  ])("is not verified with %s", (_name, text) => {
    expect(() => readPublicKey(text)).toThrow("not an Ed25519 public key");
  });

  test("signed here is valid, and any flipped bit invalidates it", () => {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    const note = Buffer.from(signNote(TEXT, "log", privateKey));
    const read = (bytes: Buffer) => {
      const [text = "", signatures = ""] = bytes.toString("utf8").split("\n\n");
      return verifyNote({ text: `${text}\n`, signatures: signatures.slice(0, -1) }, "log", [publicKey]);
    };
    expect(read(note)).toBe("valid");
    fc.assert(
      fc.property(fc.nat(note.length - 2), fc.nat(7), (at, bit) => {
        const harmed = Buffer.from(note);
        harmed[at] = (harmed[at] ?? 0) ^ (1 << bit);
        expect(read(harmed)).not.toBe("valid");
      }),
    );
  });
});

describe("checkpoints", () => {
  const ROOT = Buffer.alloc(32, 7).toString("base64");
  const ORIGIN = `safe-tool-call/audit/calls/${"ab".repeat(16)}`;
  const note = (...lines: readonly string[]) => `${lines.join("\n")}\n\n— ${ORIGIN} AAAA\n`;

  test("are read, with additional signatures", () => {
    expect(readCheckpoint(note(ORIGIN, "12", ROOT))).toMatchObject({ stream: "calls", size: 12, origin: ORIGIN });
    expect(readCheckpoint(note(ORIGIN, "12", ROOT, "extension"))).toMatchObject({ size: 12 });
  });

  test.each<readonly [string, string]>([
    ["another origin", note("example.com/log", "12", ROOT)],
    ["another stream", note(ORIGIN.replace("calls", "other"), "12", ROOT)],
    ["no log id", note(ORIGIN.slice(0, -1), "12", ROOT)],
    ["a size with a zero in front", note(ORIGIN, "012", ROOT)],
    ["a size without bound", note(ORIGIN, "9".repeat(16), ROOT)],
    ["a short root", note(ORIGIN, "12", ROOT.slice(4))],
    ["a root in other letters", note(ORIGIN, "12", `${ROOT.slice(0, -2)}x=`)],
    ["too little", note(ORIGIN, "12")],
    ["nothing", ""],
  ])("that are invalid, with %s, are not read", (_name, text) => {
    expect(readCheckpoint(text)).toBeUndefined();
  });

  test("are found in a file of them, whatever follows the last whole one", () => {
    const one = note(ORIGIN, "12", ROOT);
    const file = `${one}\n${one}\n`;
    fc.assert(
      fc.property(fc.nat(file.length), (cut) => {
        const notes = [...splitNotes(file.slice(0, cut), "2026-02-16.txt")];
        expect(notes.map((found) => found.note)).toEqual(notes.map(() => one));
        expect(notes.length).toBe(Math.floor(cut / (one.length + 1)));
        expect(notes.map(({ line }) => line)).toEqual([1, 7].slice(0, notes.length));
      }),
    );
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom("\n", "— ", "x", ORIGIN, "12") }),
        (text) => void [...splitNotes(text, "2026-02-16.txt")],
      ),
    );
  });
});
