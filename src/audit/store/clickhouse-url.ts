import { readFileSync } from "node:fs";
import { isLoopback, parametersIn } from "../../core/network.ts";
import type { EgressTls } from "../../egress/client.ts";

/** Address and credentials of the HTTP interface of a ClickHouse server. */
export interface ClickHouseAddress {
  /** Holds neither credentials nor parameters. */
  readonly url: URL;
  readonly database: string;
  readonly username: string;
  readonly password: string;
  readonly tls: EgressTls;
}

const PARAMETERS = ["secure", "ca_cert", "client_cert", "client_cert_key"] as const;
type Parameters = Readonly<Partial<Record<(typeof PARAMETERS)[number], string>>>;

const PORT = 8123;
const TLS_PORT = 8443;
const URL_LENGTH_MAX = 4_096;
const CONTROL = /[\0-\x1f\x7f]/;

/**
 * Reads `clickhouse://user:password@host:port/database?secure=…`. A remote server is reached over TLS, and its certificate verified,
 * unless the URL says otherwise.
 * @throws Error that says what is wrong with the URL without quoting it: it contains a password
 */
export function parseClickHouseUrl(text: string): ClickHouseAddress {
  const url = text.length > URL_LENGTH_MAX ? null : URL.parse(text);
  if (url === null || url.protocol !== "clickhouse:") {
    throw invalid("is not a clickhouse:// URL: in a password # % / : ? @ are written %23 %25 %2F %3A %3F %40");
  }
  if (url.hash !== "") throw invalid("contains #: write %23");
  const [database, username, password] = [url.pathname.slice(1), url.username, url.password].map(decoded);
  if (url.hostname === "" || !username) throw invalid("names no host or no user");
  if (!database || database.includes("/")) throw invalid("must name one database after the host");
  const parameters = parametersOf(url.searchParams);
  const isSecure = securityOf(parameters, url.hostname);
  const [scheme, port] = isSecure ? ["https", TLS_PORT] : ["http", PORT];
  return {
    url: new URL(`${scheme}://${url.hostname}:${url.port === "" ? port : url.port}/`),
    database,
    username,
    password: password ?? "",
    tls: tlsOf(parameters),
  };
}

function parametersOf(search: URLSearchParams): Parameters {
  const found = parametersIn(search, PARAMETERS);
  if (found === undefined) throw invalid(`accepts only the parameters ${PARAMETERS.join(", ")} once each`);
  return found;
}

function securityOf({ secure, ...files }: Parameters, hostname: string): boolean {
  const hasFiles = Object.keys(files).length > 0;
  if (secure === undefined) return hasFiles || !isLoopback(hostname);
  if (secure !== "true" && secure !== "false") throw invalid("must say secure=true or secure=false");
  if (secure === "false" && hasFiles) throw invalid("names certificates, but secure=false uses none");
  return secure === "true";
}

function tlsOf({ ca_cert, client_cert, client_cert_key }: Parameters): EgressTls {
  if ((client_cert === undefined) !== (client_cert_key === undefined)) {
    throw invalid("must name client_cert and client_cert_key together");
  }
  return {
    rootCert: fileOf("ca_cert", ca_cert),
    clientCert: fileOf("client_cert", client_cert),
    clientKey: fileOf("client_cert_key", client_cert_key),
  };
}

function fileOf(name: string, path: string | undefined): Buffer | undefined {
  if (path === undefined) return undefined;
  if (!path.startsWith("/")) throw invalid(`must name ${name} by an absolute path`);
  try {
    return readFileSync(path);
  } catch {
    throw invalid(`names a file in ${name} that cannot be read`);
  }
}

function decoded(part: string): string {
  let text: string;
  try {
    text = decodeURIComponent(part);
  } catch {
    throw invalid("contains a % that is not an escape: write %25");
  }
  if (CONTROL.test(text)) throw invalid("contains a control character");
  return text;
}

function invalid(problem: string): Error {
  return new Error(`the URL of the audit store ${problem}`);
}
