/**
 * The parts of the Model Context Protocol that its server (`mcp/`), the client of other servers (`targets/mcp/`) and the relay
 * (`cli/mcp.ts`) have in common.
 */

/** The version since which every request names its version and its client, and there is no `initialize`. */
export const MODERN = "2026-07-28";

export const META = {
  version: "io.modelcontextprotocol/protocolVersion",
  capabilities: "io.modelcontextprotocol/clientCapabilities",
  client: "io.modelcontextprotocol/clientInfo",
  server: "io.modelcontextprotocol/serverInfo",
  subscription: "io.modelcontextprotocol/subscriptionId",
} as const;

/** Methods with which clients follow changes of a list of tools. */
export const CHANGES = {
  listen: "subscriptions/listen",
  acknowledged: "notifications/subscriptions/acknowledged",
  tools: "notifications/tools/list_changed",
} as const;

export const ERROR = {
  parse: -32_700,
  invalidRequest: -32_600,
  methodNotFound: -32_601,
  invalidParams: -32_602,
  internal: -32_603,
  /** A refusal for which the protocol defines no code. */
  refused: -32_000,
  headerMismatch: -32_020,
  missingCapability: -32_021,
  urlElicitationRequired: -32_042,
  unsupportedVersion: -32_022,
} as const;

/** Returns a text as a header's value: one that a header cannot carry in Base64 (`=?base64?…?=`). */
export function headerText(text: string): string {
  const isPlain = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?.*\?=$/.test(text);
  return isPlain ? text : `=?base64?${Buffer.from(text).toString("base64")}?=`;
}

const ENCODED = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/;
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Decodes a header value that may be Base64 (`=?base64?…?=`); undefined when the encoding is not canonical or not UTF-8. */
export function decodedHeaderText(value: string): string | undefined {
  if (!value.startsWith("=?base64?") || !value.endsWith("?=")) return value;
  const [, encoded] = ENCODED.exec(value) ?? [];
  if (encoded === undefined) return undefined;
  const bytes = Buffer.from(encoded, "base64");
  if (bytes.toString("base64") !== encoded) return undefined;
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}
