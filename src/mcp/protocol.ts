import { isTable } from "../core/json.ts";
import { decodedHeaderText, ERROR, META, MODERN } from "../core/mcp.ts";

/**
 * Reads one JSON-RPC message of MCP over Streamable HTTP. Since 2026-07-28 every request names its protocol version and its client
 * in `params._meta` (the modern era); before, a client negotiated once with `initialize` (the legacy era).
 */

/** Supported versions of the legacy era, newest first. */
export const LEGACY: readonly string[] = ["2025-11-25", "2025-06-18"];
/** The version of a request that names none (2025-06-18, Streamable HTTP). */
const UNSTATED = "2025-03-26";

const HTTP_BAD_REQUEST = 400;
const HTTP_NOT_FOUND = 404;
const HTTP_OK = 200;

type Headers = Readonly<Record<string, string | string[] | undefined>>;

export type Table = Readonly<Record<string, unknown>>;
export type RequestId = string | number;
export type Era = "modern" | "legacy";

/** An error of the protocol, with its HTTP status. */
export class RpcError extends Error {
  override readonly name = "RpcError";
  readonly code: number;
  readonly http: number;
  readonly data: Table | undefined;
  readonly id: RequestId | null;

  constructor(code: number, message: string, options: Partial<Pick<RpcError, "http" | "data" | "id">> = {}) {
    super(message);
    const { http = HTTP_BAD_REQUEST, data, id = null } = options;
    this.code = code;
    this.http = http;
    this.data = data;
    this.id = id;
  }
}

/** Name and version that a client reports about itself: untrusted. */
export interface ClientInfo {
  readonly name: string;
  readonly version: string;
}

export interface RpcRequest {
  readonly kind: "request";
  readonly id: RequestId;
  readonly method: string;
  readonly params: Table;
  readonly meta: Table;
  readonly era: Era;
  readonly version: string;
  readonly client: ClientInfo | undefined;
  /** Capabilities that the client declares. */
  readonly capabilities: Table;
  readonly progressToken: RequestId | undefined;
}

/** A notification, or a response to a request that this server never sends: neither gets an answer. */
interface Unanswered {
  readonly kind: "unanswered";
}

export type Message = RpcRequest | Unanswered;

/** The recognizable parts of a body that is not a valid message: its id, and whether it may be a call. */
export interface InvalidMessage {
  readonly id: RequestId | null;
  readonly mayBeCall: boolean;
}

const UNANSWERED: Unanswered = { kind: "unanswered" };
const MEMBERS: ReadonlySet<string> = new Set(["jsonrpc", "id", "method", "params"]);
const ID_CHARACTERS_MAX = 256;
const TOKEN_CHARACTERS_MAX = 256;

export function readInvalidMessage(body: unknown): InvalidMessage {
  if (!isTable(body)) return { id: null, mayBeCall: true };
  const { id, method } = body;
  return { id: isId(id) ? id : null, mayBeCall: typeof method !== "string" || method === "tools/call" };
}

/** @throws {RpcError} */
export function readMessage(body: unknown, headers: Headers): Message {
  if (Array.isArray(body)) {
    throw new RpcError(ERROR.invalidRequest, "Batches are not accepted: send one message in each request.");
  }
  if (!isTable(body)) throw notRpc(null);
  const { jsonrpc, id, method, params: written } = body;
  const params = isTable(written) ? withoutNulls(written) : (written ?? undefined);
  if (jsonrpc === "2.0" && method === undefined && ("result" in body || "error" in body)) return UNANSWERED;
  const sent = isId(id) ? id : null;
  const isKnown = Object.keys(body).every((member) => MEMBERS.has(member));
  if (jsonrpc !== "2.0" || !isKnown || typeof method !== "string" || (params !== undefined && !isTable(params)))
    throw notRpc(sent);
  const { _meta: meta = {} } = params ?? {};
  if (!isTable(meta)) throw invalid(sent, "params._meta must be an object");
  const headerValues = headersOf(headers);
  if (!("id" in body)) {
    if (method === "tools/call")
      throw new RpcError(ERROR.invalidRequest, "A call needs an id: without one, nothing runs.");
    checkAgreement({ method, meta, headerValues, id: null });
    return UNANSWERED;
  }
  if (sent === null) throw notRpc(null);
  const message = { kind: "request", id: sent, method, params: params ?? {}, meta } as const;
  const version = versionOf(message, headerValues);
  const era = version === MODERN ? "modern" : "legacy";
  const progressToken = progressTokenOf(meta, sent);
  if (era === "modern") {
    const { [META.client]: client, [META.capabilities]: capabilities } = meta;
    return { ...message, era, version, client: readClient(client), capabilities: tableOf(capabilities), progressToken };
  }
  if (method === "initialize") {
    const { clientInfo, capabilities } = message.params;
    return {
      ...message,
      era,
      version,
      client: readClient(clientInfo),
      capabilities: tableOf(capabilities),
      progressToken,
    };
  }
  const { version: hinted = version, client, capabilities = {} } = readHint(headers["mcp-session-id"]) ?? {};
  return { ...message, era, version: version === UNSTATED ? hinted : version, client, capabilities, progressToken };
}

/** Parameters that clients may also leave out: some write null instead. */
const OPTIONAL: ReadonlySet<string> = new Set(["_meta", "arguments", "cursor"]);

/** Returns parameters without optional ones that are null. */
export function withoutNulls(params: Table): Table {
  const isAbsent = ([name, value]: readonly [string, unknown]): boolean => value === null && OPTIONAL.has(name);
  const written = Object.entries(params);
  return written.some(isAbsent) ? Object.fromEntries(written.filter((each) => !isAbsent(each))) : params;
}

function tableOf(value: unknown): Table {
  return isTable(value) ? value : {};
}

/** Returns whether the client can ask its user to open a page. */
export function opensPages({ capabilities: { elicitation } }: Pick<RpcRequest, "capabilities">): boolean {
  return isTable(elicitation) && isTable(elicitation["url"]);
}

function notRpc(id: RequestId | null): RpcError {
  return new RpcError(
    ERROR.invalidRequest,
    "The body is not one JSON-RPC 2.0 message {jsonrpc, id?, method, params?}.",
    {
      id,
    },
  );
}

/** Returns an "Invalid params" error, with HTTP status 200 by default: the request itself was understood. */
export function invalid(id: RequestId | null, problem: string, http: number = HTTP_OK): RpcError {
  return new RpcError(ERROR.invalidParams, `Invalid params: ${problem}.`, { id, http });
}

export function unknownMethod({ id, era }: Pick<RpcRequest, "id" | "era">): RpcError {
  const http = era === "modern" ? HTTP_NOT_FOUND : HTTP_OK;
  return new RpcError(ERROR.methodNotFound, "Method not found", { id, http });
}

function isId(id: unknown): id is RequestId {
  return (typeof id === "string" && id.length <= ID_CHARACTERS_MAX) || Number.isSafeInteger(id);
}

/** Returns the version in the header of a request whose body cannot be read; `unknown` for a version without support here. */
export function statedVersion(header: string | string[] | undefined): string {
  return [MODERN, ...LEGACY].find((version) => version === header) ?? "unknown";
}

/**
 * Returns who asks for the stream of notifications; undefined for any other GET. Versions before 2025-06-18 send no version: some
 * of their clients expect another transport at this method.
 */
export function readStreamRequest(headers: Headers): Pick<RpcRequest, "version" | "client"> | undefined {
  const { version = "" } = headersOf(headers);
  const { accept } = headers;
  const readsEvents = typeof accept === "string" && accept.includes("text/event-stream");
  if (!LEGACY.includes(version) || !readsEvents) return undefined;
  return { version, client: readHint(headers["mcp-session-id"])?.client };
}

interface ProtocolHeaders {
  readonly version: string | undefined;
  readonly method: string | undefined;
  readonly name: string | undefined;
}

function headersOf(headers: Headers): ProtocolHeaders {
  const read = (name: string): string | undefined => {
    const value = headers[name];
    return typeof value === "string" ? value.trim() : undefined;
  };
  return { version: read("mcp-protocol-version"), method: read("mcp-method"), name: read("mcp-name") };
}

interface Compared {
  readonly id: RequestId | null;
  readonly method: string;
  readonly meta: Table;
  readonly headerValues: ProtocolHeaders;
}

/**
 * Checks that headers and body agree: a proxy that reads only the headers must see the same request.
 *
 * @throws {RpcError}
 */
function checkAgreement({ id, method, meta, headerValues }: Compared): void {
  const { [META.version]: claimed } = meta;
  if (claimed !== undefined && typeof claimed !== "string") throw envelope(id, `${META.version}: must be a string`);
  if (claimed !== undefined && headerValues.version !== undefined && headerValues.version !== claimed) {
    throw mismatch(id, `the body names protocol version ${shown(claimed)}, MCP-Protocol-Version another`);
  }
  checkMethod({ id, method, headerValues });
}

/** Earlier versions do not know this header, but a proxy may believe it whatever the version. */
function checkMethod({ id, method, headerValues }: Omit<Compared, "meta">): void {
  if (headerValues.method === undefined || headerValues.method === method) return;
  throw mismatch(id, `the body names method ${shown(method)}, Mcp-Method another`);
}

/** The parameter that the header `Mcp-Name` repeats, by method, and what it names. */
const NAMES: ReadonlyMap<string, readonly [parameter: string, named: string]> = new Map<
  string,
  readonly [string, string]
>([
  ["tools/call", ["name", "tool"]],
  ["tasks/get", ["taskId", "task"]],
  ["tasks/update", ["taskId", "task"]],
  ["tasks/cancel", ["taskId", "task"]],
]);

interface Naming {
  readonly id: RequestId;
  readonly headerName: string | undefined;
  readonly name: unknown;
  readonly named: string;
}

/** @throws {RpcError} when the header names another tool or task than the body */
function checkName({ id, headerName, name, named }: Naming): void {
  if (headerName === undefined) return;
  const decoded = decodedHeaderText(headerName);
  if (decoded === undefined) throw mismatch(id, "the header Mcp-Name is not valid Base64");
  if (typeof name === "string" && decoded !== name) throw mismatch(id, `the body names another ${named} than Mcp-Name`);
}

function versionOf(
  { id, method, params, meta }: Pick<RpcRequest, "id" | "method" | "params" | "meta">,
  headerValues: ProtocolHeaders,
) {
  const claimed = meta[META.version];
  if (claimed === undefined) return legacyVersion({ id, method, params }, headerValues);
  if (method === "initialize" && claimed !== MODERN) return legacyVersion({ id, method, params }, headerValues);
  checkEnvelope(id, meta);
  checkAgreement({ id, method, meta, headerValues });
  if (claimed !== MODERN) throw unsupported(id, String(claimed));
  checkModernHeaders({ id, method, params }, headerValues);
  return MODERN;
}

function legacyVersion(
  { id, method, params }: Pick<RpcRequest, "id" | "method" | "params">,
  headerValues: ProtocolHeaders,
): string {
  const { version } = headerValues;
  if (version !== MODERN) checkMethod({ id, method, headerValues });
  if (version !== MODERN && method === "tools/call") {
    checkName({ id, headerName: headerValues.name, name: params["name"], named: "tool" });
  }
  if (method === "initialize") {
    if (version === MODERN)
      throw mismatch(id, "initialize belongs to earlier versions than MCP-Protocol-Version names");
    const asked = params["protocolVersion"];
    return LEGACY.find((each) => each === asked) ?? LEGACY[0] ?? UNSTATED;
  }
  if (version === MODERN) throw envelope(id, `${META.version}: missing`);
  if (version === undefined || LEGACY.includes(version)) return version ?? UNSTATED;
  const supported = [MODERN, ...LEGACY].join(", ");
  throw new RpcError(ERROR.refused, `Unsupported protocol version: ${shown(version)} (supported: ${supported})`, {
    id,
  });
}

/** @throws {RpcError} */
function checkEnvelope(id: RequestId, meta: Table): void {
  const { [META.version]: version, [META.capabilities]: capabilities, [META.client]: client } = meta;
  if (typeof version !== "string") throw envelope(id, `${META.version}: must be a string`);
  if (capabilities === undefined) throw envelope(id, `${META.capabilities}: missing`);
  if (!isTable(capabilities)) throw envelope(id, `${META.capabilities}: must be an object`);
  if (client !== undefined && readClient(client) === undefined) {
    throw envelope(id, `${META.client}: must have a name and a version`);
  }
}

/** Requires the headers that repeat the version, the method and the tool or task for proxies that do not read bodies. */
function checkModernHeaders(
  { id, method, params }: Pick<RpcRequest, "id" | "method" | "params">,
  headerValues: ProtocolHeaders,
): void {
  if (headerValues.version === undefined) throw mismatch(id, "the header MCP-Protocol-Version is missing");
  if (headerValues.method === undefined) throw mismatch(id, "the header Mcp-Method is missing");
  const naming = NAMES.get(method);
  if (naming === undefined) return;
  const [parameter, named] = naming;
  const { [parameter]: name } = params;
  const { name: headerName } = headerValues;
  if (headerName === undefined && typeof name === "string") throw mismatch(id, "the header Mcp-Name is missing");
  checkName({ id, headerName, name, named });
}

function mismatch(id: RequestId | null, problem: string): RpcError {
  return new RpcError(ERROR.headerMismatch, `Bad Request: the headers and the body disagree: ${problem}`, { id });
}

function envelope(id: RequestId | null, problem: string): RpcError {
  return new RpcError(ERROR.invalidParams, `Invalid params: _meta of protocol version ${MODERN}: ${problem}`, { id });
}

function unsupported(id: RequestId, requested: string): RpcError {
  const data = { supported: [MODERN], requested: requested.slice(0, SHOWN_CHARACTERS_MAX) };
  return new RpcError(ERROR.unsupportedVersion, `Unsupported protocol version: ${shown(requested)}`, { id, data });
}

const SHOWN_CHARACTERS_MAX = 64;

/** Returns a client's text for an error message: bounded, printable ASCII. */
export function shown(text: string): string {
  return text.slice(0, SHOWN_CHARACTERS_MAX).replace(/[^\x20-\x7e]/g, "?");
}

/** @throws {RpcError} */
function progressTokenOf(meta: Table, id: RequestId): RequestId | undefined {
  const { progressToken: token } = meta;
  if (token === undefined) return undefined;
  const isShort = typeof token === "string" && token.length <= TOKEN_CHARACTERS_MAX;
  if (isShort || Number.isSafeInteger(token)) return token as RequestId;
  throw invalid(
    id,
    `_meta.progressToken must be a string of at most ${TOKEN_CHARACTERS_MAX} characters, or an integer`,
  );
}

export function readClient(value: unknown): ClientInfo | undefined {
  if (!isTable(value)) return undefined;
  const { name, version } = value;
  return typeof name === "string" && typeof version === "string" ? { name, version } : undefined;
}

const HINT_CHARACTERS_MAX = 2_048;
const HINT_TEXT_CHARACTERS_MAX = 128;

/**
 * Returns the session id of a legacy client. It refers to no state and grants nothing: it repeats from `initialize` the client
 * information, so that its calls can be audited with its name, and whether the client opens pages. A forged one is a client that
 * lies about itself.
 */
export function sessionIdOf(request: Pick<RpcRequest, "version" | "client" | "capabilities">): string {
  const { version, client } = request;
  const text = (value = ""): string => value.slice(0, HINT_TEXT_CHARACTERS_MAX).replace(CONTROLS, "?").toWellFormed();
  const hint = [version, text(client?.name), text(client?.version), ...(opensPages(request) ? [OPENS_PAGES] : [])];
  return Buffer.from(JSON.stringify(hint), "utf8").toString("base64url");
}

const OPENS_PAGES = "elicitation.url";

/** JSON takes six characters for each of these. */
const CONTROLS = /[\u0000-\u001f]/g;

function readHint(header: string | string[] | undefined) {
  if (typeof header !== "string" || header.length > HINT_CHARACTERS_MAX) return undefined;
  try {
    const hint: unknown = JSON.parse(Buffer.from(header, "base64url").toString("utf8"));
    if (!Array.isArray(hint) || !HINT_MEMBERS.includes(hint.length) || !hint.every(isShortText)) return undefined;
    const [version = "", name = "", clientVersion = "", opened] = hint as readonly string[];
    const client = name === "" ? undefined : { name, version: clientVersion };
    const capabilities: Table = opened === OPENS_PAGES ? { elicitation: { url: {} } } : {};
    return { version: LEGACY.find((each) => each === version), client, capabilities };
  } catch {
    return undefined;
  }
}

const HINT_MEMBERS: readonly number[] = [3, 4];

function isShortText(value: unknown): value is string {
  return typeof value === "string" && value.length <= HINT_TEXT_CHARACTERS_MAX;
}
