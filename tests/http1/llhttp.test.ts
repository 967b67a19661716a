import { expect, test } from "bun:test";
import { createHash } from "node:crypto";
import wasm from "undici/lib/llhttp/llhttp_simd-wasm.js";
import packageJson from "../../package.json" with { type: "json" };
import { loadLlhttp } from "../../src/http1/llhttp.ts";

// The file is not part of undici's public interface. When one of these tests fails after an update, read the new file's
// exports and the struct `llhttp_t` again, and then run `tests/http1/parser.test.ts`.

test("undici is pinned, and its parser is the one that was reviewed", () => {
  expect(packageJson.dependencies.undici).toBe("7.30.2");
  expect(createHash("sha256").update(wasm).digest("hex")).toBe(
    "2434215e1f7fa0163f22ce895ddbeb83984fa0aa51e123164e053213e5aca028",
  );
});

test("the parser's file imports the callbacks that it is given, and nothing else", () => {
  const imports = WebAssembly.Module.imports(new WebAssembly.Module(wasm));
  expect(imports.map(({ module, name, kind }) => `${module} ${name} ${kind}`).sort()).toEqual([
    "env wasm_on_body function",
    "env wasm_on_header_field function",
    "env wasm_on_header_value function",
    "env wasm_on_headers_complete function",
    "env wasm_on_message_begin function",
    "env wasm_on_message_complete function",
    "env wasm_on_status function",
    "env wasm_on_url function",
  ]);
});

test("the parser is loaded once per process", async () => {
  const [one, other] = await Promise.all([loadLlhttp(), loadLlhttp()]);
  expect(one).toBe(other);
});
