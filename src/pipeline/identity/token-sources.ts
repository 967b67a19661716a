import { z } from "zod";
import { BOUNDED_TEXT_LIMITS, parseStrictJson } from "../../core/strict-json.ts";
import { type FixedKeySource, jwksKeys, type KeySource, publicKey } from "./issuer-keys.ts";
import { type FetchCredentials, jwksUrl, uriProblem } from "./remote-keys.ts";

/** The issuer's settings, and access to files, for a token source. */
export interface SourceParts {
  readonly algorithms: readonly string[];
  /** Reads a file; undefined after a problem, which is reported for the setting. */
  readonly read: (setting: string, path: string) => string | undefined;
  /** Reads a file again, with its path as the configuration names it. @throws {Error} */
  readonly readAgain: (path: string) => string;
  readonly problem: (setting: string, message: string) => void;
}

/**
 * A way to obtain the keys that verify an issuer's tokens. Each issuer names exactly one, by its key. The configuration's schema
 * and error texts are derived from these declarations.
 */
export interface TokenSource<Key extends string = string, Settings extends z.ZodRawShape = z.ZodRawShape> {
  /** Key in `jwt.issuers[]`. */
  readonly key: Key;
  /** Schemas of this key and of the settings that only this source reads. A setting named `…File` is a path. */
  readonly settings: Settings;
  /** True when the key holds a value that a configuration file cannot hold. */
  readonly isForLibrary: boolean;
  /** Returns the keys; undefined after a problem. `settings` holds the key. */
  open(settings: z.output<z.ZodObject<Settings>>, parts: SourceParts): KeySource | undefined;
}

const text = z.string().min(1);

const jwksUriSource = source({
  key: "jwksUri",
  settings: {
    jwksUri: z
      .url({ protocol: /^https?$/, error: "must be a URL that begins with https://" })
      .superRefine((uri, context) => {
        const problem = uriProblem(uri);
        if (problem !== undefined) context.addIssue({ code: "custom", message: problem });
      })
      .describe(
        "URL of the keys, fetched again every 4 to 5 minutes and for unknown key ids. Set exactly one of `jwksUri`, `jwksFile`, `publicKeyFile`.",
      ),
    caFile: text
      .optional()
      .describe(
        "File with the certificates (PEM) trusted for the server of `jwksUri`, instead of the system's. It is read at every fetch.",
      ),
    tokenFile: text
      .optional()
      .describe(
        "File with a bearer token for the server of `jwksUri`, as the API server of Kubernetes requires. It is read at every fetch.",
      ),
  },
  isForLibrary: false,
  open: ({ jwksUri, caFile, tokenFile }, parts) => jwksUrl(jwksUri, credentialsIn({ caFile, tokenFile }, parts)),
});

const jwksFileSource = source({
  key: "jwksFile",
  settings: { jwksFile: text.describe("File with a JSON Web Key Set, read at start.") },
  isForLibrary: false,
  open: ({ jwksFile }, parts) =>
    fromFile({ setting: "jwksFile", path: jwksFile }, parts, (written) => {
      try {
        return jwksKeys(parseStrictJson(written, BOUNDED_TEXT_LIMITS));
      } catch {
        return written.includes("-----BEGIN") ? "is PEM, not JSON: name it as publicKeyFile" : "is not JSON";
      }
    }),
});

const publicKeyFileSource = source({
  key: "publicKeyFile",
  settings: { publicKeyFile: text.describe("File with a public key in PEM, read at start.") },
  isForLibrary: false,
  open: ({ publicKeyFile }, parts) => fromFile({ setting: "publicKeyFile", path: publicKeyFile }, parts, publicKey),
});

const jwksSource = source({
  key: "jwks",
  settings: {
    jwks: z
      .looseObject({ keys: z.array(z.looseObject({})) })
      .describe("JSON Web Key Set as a value instead of a file, for the library."),
  },
  isForLibrary: true,
  open: ({ jwks }) => jwksKeys(jwks),
});

const publicKeySource = source({
  key: "publicKey",
  settings: { publicKey: text.describe("Public key in PEM, for the library.") },
  isForLibrary: true,
  open: ({ publicKey: pem }) => publicKey(pem),
});

/** The sources that every build has. */
export const TOKEN_SOURCES = [jwksUriSource, jwksFileSource, publicKeyFileSource, jwksSource, publicKeySource] as const;

function source<Key extends string, Settings extends z.ZodRawShape>(
  declared: TokenSource<Key, Settings>,
): TokenSource<Key, Settings> {
  return declared;
}

/** Reads keys from a file. They are checked here too, because only here the file is known. */
function fromFile(
  { setting, path }: { readonly setting: string; readonly path: string },
  { algorithms, read, problem }: SourceParts,
  parse: (text: string) => FixedKeySource | string,
): KeySource | undefined {
  const written = read(setting, path);
  if (written === undefined) return undefined;
  const keys = parse(written);
  const opened = typeof keys === "string" ? [keys] : keys.open({ algorithms });
  if (!Array.isArray(opened)) return keys as FixedKeySource;
  for (const message of opened) problem(setting, `${path}: ${message}`);
  return undefined;
}

/** Returns the CA and token for the server of the keys, or for the API server that reviews tokens. The files are read once as a check. */
export function credentialsIn(
  files: Readonly<Record<"caFile" | "tokenFile", string | undefined>>,
  { read, readAgain, problem }: Pick<SourceParts, "read" | "readAgain" | "problem">,
): FetchCredentials | undefined {
  const { caFile, tokenFile } = files;
  if (caFile === undefined && tokenFile === undefined) return undefined;
  for (const [setting, path] of Object.entries(files)) {
    if (path !== undefined && read(setting, path)?.trim() === "") problem(setting, `${path} is empty`);
  }
  const readFile = (path: string | undefined) => (path === undefined ? undefined : readAgain(path).trim());
  return () => ({ ca: readFile(caFile), token: readFile(tokenFile) });
}
