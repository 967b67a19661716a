import { isLoopback, parametersIn } from "../core/network.ts";

/** Address and credentials of a PostgreSQL server. */
export interface PostgresAddress {
  readonly hostname: string;
  readonly port: number;
  readonly database: string;
  readonly username: string;
  readonly password: string;
  readonly sslMode: SslMode;
  /** Absolute paths of PEM files: the CA of the server's certificate, and the client certificate with its key. */
  readonly rootCert: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
  /** True for a pooler that gives a connection to each transaction: PgBouncer in transaction mode. */
  readonly isPooled: boolean;
}

/** Excludes `allow` and `prefer`, which fall back to plain text: a man in the middle could force that. */
const SSL_MODES = ["disable", "require", "verify-ca", "verify-full"] as const;
type SslMode = (typeof SSL_MODES)[number];

const PARAMETERS = ["sslmode", "sslrootcert", "sslcert", "sslkey", "pgbouncer"] as const;
type Parameters = Readonly<Partial<Record<(typeof PARAMETERS)[number], string>>>;

const DEFAULT_PORT = 5432;
const URL_LENGTH_MAX = 4_096;

/**
 * Reads `postgres://user:password@host:port/database?sslmode=…`. Ignores the environment. The certificate of a remote server is
 * verified unless the URL says otherwise.
 * @throws Error that says what is wrong with the URL of the store without quoting it: it contains a password
 */
export function parsePostgresUrl(text: string, store = "approvals store"): PostgresAddress {
  try {
    return parse(text);
  } catch (error) {
    throw error instanceof InvalidUrl ? new Error(`the URL of the ${store} ${error.message}`) : error;
  }
}

function parse(text: string): PostgresAddress {
  const url = text.length > URL_LENGTH_MAX ? null : URL.parse(text);
  if (url === null || !/^postgres(?:ql)?:$/.test(url.protocol)) {
    throw invalid("is not a postgres:// URL: in a password # % / : ? @ are written %23 %25 %2F %3A %3F %40");
  }
  if (url.hash !== "") throw invalid("contains #: write %23");
  const database = decoded(url.pathname.slice(1));
  const username = decoded(url.username);
  if (url.hostname === "" || username === "") throw invalid("names no host or no user");
  if (database === "" || database.includes("/")) throw invalid("must name one database after the host");
  const parameters = parametersOf(url.searchParams);
  return {
    hostname: url.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: url.port === "" ? DEFAULT_PORT : Number(url.port),
    database,
    username,
    password: decoded(url.password),
    sslMode: modeOf(parameters.sslmode, url.hostname),
    ...filesOf(parameters),
    isPooled: isPooledBy(parameters.pgbouncer),
  };
}

function isPooledBy(written = "false"): boolean {
  if (written !== "true" && written !== "false") throw invalid("must say pgbouncer=true or pgbouncer=false");
  return written === "true";
}

function parametersOf(search: URLSearchParams): Parameters {
  const found = parametersIn(search, PARAMETERS);
  if (found === undefined) throw invalid(`accepts only the parameters ${PARAMETERS.join(", ")} once each`);
  return found;
}

function modeOf(written: string | undefined, hostname: string): SslMode {
  if (written === undefined) return isLoopback(hostname) ? "disable" : "verify-full";
  const mode = SSL_MODES.find((known) => known === written);
  if (mode === undefined) throw invalid(`must have an sslmode of ${SSL_MODES.join(", ")}`);
  return mode;
}

function filesOf({
  sslmode,
  sslrootcert,
  sslcert,
  sslkey,
}: Parameters): Pick<PostgresAddress, "rootCert" | "cert" | "key"> {
  const files = [sslrootcert, sslcert, sslkey];
  if (files.some((path) => path !== undefined && !path.startsWith("/"))) {
    throw invalid("must name sslrootcert, sslcert and sslkey by absolute paths");
  }
  if ((sslcert === undefined) !== (sslkey === undefined)) throw invalid("must name sslcert and sslkey together");
  if (sslmode === "disable" && files.some((path) => path !== undefined)) {
    throw invalid("names certificates, but sslmode=disable uses none");
  }
  if (sslmode === "require" && sslrootcert !== undefined) {
    throw invalid("names sslrootcert, which sslmode=require does not check: use verify-full");
  }
  return { rootCert: sslrootcert, cert: sslcert, key: sslkey };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw invalid("contains a % that is not an escape: write %25");
  }
}

class InvalidUrl extends Error {}

function invalid(problem: string): Error {
  return new InvalidUrl(problem);
}
