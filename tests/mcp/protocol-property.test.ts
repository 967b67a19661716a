import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { META, MODERN } from "../../src/core/mcp.ts";
import { RpcError, readInvalidMessage, readMessage, sessionIdOf } from "../../src/mcp/protocol.ts";
import { eventText } from "../../src/mcp/replies.ts";

const CODES = [-32_000, -32_020, -32_022, -32_600, -32_602];
const VERSIONS = [MODERN, "2025-11-25", "2025-06-18", "2025-03-26"];

/** Something that looks like a message, with any part replaced. */
const oddly = <T>(usual: T) => fc.oneof({ weight: 6, arbitrary: fc.constant(usual) }, fc.jsonValue());
const meta = fc.record(
  {
    [META.version]: oddly(MODERN),
    [META.capabilities]: oddly({}),
    [META.client]: oddly({ name: "c", version: "1" }),
    progressToken: fc.jsonValue(),
  },
  { requiredKeys: [] },
);
const params = fc.record(
  { name: oddly("a_tool"), arguments: oddly({}), _meta: fc.oneof(meta, fc.jsonValue()) },
  { requiredKeys: [] },
);
const message = fc.record(
  {
    jsonrpc: oddly("2.0"),
    id: oddly(1),
    method: fc.oneof(fc.constantFrom("tools/call", "initialize", "tools/list", "ping"), fc.jsonValue()),
    params: fc.oneof({ weight: 6, arbitrary: params }, fc.jsonValue()),
    result: fc.jsonValue(),
  },
  { requiredKeys: ["method"] },
);
const header = (usual: string) =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(usual) }, fc.string(), fc.constant(undefined));
const headers = fc.record({
  "mcp-protocol-version": fc.oneof(fc.constantFrom(...VERSIONS), header(MODERN)),
  "mcp-method": header("tools/call"),
  "mcp-name": header("a_tool"),
  "mcp-session-id": fc.oneof(fc.string(), fc.base64String(), fc.constant(undefined)),
});

/** Texts with characters that take most room, or that end lines somewhere. */
const text = fc
  .array(
    fc.oneof(
      fc.string({ maxLength: 4 }),
      fc.constantFrom("\u0000", "\n", "\u001c", "\u0085", "\u2028", "\u2029", "\ud800", "中".repeat(30)),
    ),
  )
  .map((parts) => parts.join("").slice(0, 128));

function readOrError(body: unknown, sent: Parameters<typeof readMessage>[1]) {
  try {
    return readMessage(body, sent);
  } catch (error) {
    if (!(error instanceof RpcError)) throw error;
    return error;
  }
}

describe("any body and any headers", () => {
  test("give a message of a known version or an error of the protocol", () => {
    fc.assert(
      fc.property(fc.oneof(message, fc.jsonValue()), headers, (body, sent) => {
        const read = readOrError(body, sent);
        if (read instanceof RpcError) {
          expect(CODES).toContain(read.code);
          expect(read.message).toMatch(/^[ -~]{1,400}$/);
          expect(read.id === null || read.id === (body as { id: unknown }).id).toBe(true);
        } else if (read.kind === "request") {
          expect(VERSIONS).toContain(read.version);
          expect(read.era === "modern").toBe(read.version === MODERN);
          expect(["string", "undefined"]).toContain(typeof read.client?.name);
        }
        expect(typeof readInvalidMessage(body).mayBeCall).toBe("boolean");
      }),
      { numRuns: 2_000 },
    );
  });

  test("are one modern call only when headers and body agree on version, method and tool", () => {
    fc.assert(
      fc.property(message, headers, (body, sent) => {
        const read = readOrError(body, sent);
        if (read instanceof RpcError || read.kind !== "request" || read.era !== "modern") return;
        expect(sent["mcp-protocol-version"]?.trim()).toBe(read.meta[META.version] as string);
        expect(sent["mcp-method"]?.trim()).toBe(read.method);
        const { name } = read.params;
        const told = sent["mcp-name"]?.trim() ?? "";
        if (read.method === "tools/call" && typeof name === "string" && !told.startsWith("=?")) expect(told).toBe(name);
      }),
      { numRuns: 2_000 },
    );
  });

  test("a session id repeats what the client said, and nothing else", () => {
    fc.assert(
      fc.property(text, text, fc.boolean(), (name, version, hasPages) => {
        const capabilities = hasPages ? { elicitation: { url: {} } } : {};
        const id = sessionIdOf({ version: "2025-11-25", client: { name, version }, capabilities });
        expect(id).toMatch(/^[A-Za-z0-9_-]{1,1100}$/);
        const read = readMessage({ jsonrpc: "2.0", id: 1, method: "ping" }, { "mcp-session-id": id });
        if (read.kind !== "request") throw new Error("a request was sent");
        const told = (said: string) => said.replace(/[\u0000-\u001f]/g, "?").toWellFormed();
        expect(read.client).toEqual(name === "" ? undefined : { name: told(name), version: told(version) });
        expect(read.capabilities).toEqual(capabilities);
      }),
    );
  });

  test("become one line of a stream for every client, with the same content", () => {
    fc.assert(
      fc.property(text, (said) => {
        const [, data = "", ...rest] = eventText(JSON.stringify(said)).split(
          /[\n\v\f\r\u001c-\u001e\u0085\u2028\u2029]/,
        );
        expect(rest).toEqual(["", ""]);
        expect(JSON.parse(data.slice("data: ".length))).toBe(said);
      }),
    );
  });
});
