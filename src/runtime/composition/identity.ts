import { readFileSync, statSync } from "node:fs";
import type { AuditLog } from "../../audit/audit-log.ts";
import { systemCode } from "../../core/error-text.ts";
import type { CallerVerifierOptions } from "../../pipeline/caller-context.ts";
import type { IssuerProfile } from "../../pipeline/identity/issuer-profile.ts";
import { REVOCATION_BYTES_MAX, type RevocationList, readRevocations } from "../../pipeline/identity/revocations.ts";
import type { ReviewObserver, TokenReviewer } from "../../pipeline/identity/token-review.ts";
import { credentialsIn } from "../../pipeline/identity/token-sources.ts";
import { type Config, pathFrom } from "../config/config.ts";
import { readPlainFile } from "../config/plain-file.ts";
import { watchFiles } from "../config/watched-files.ts";
import type { Modules } from "../module-types.ts";
import { claimsToKeep } from "./decision-points.ts";
import { readNamed } from "./problems.ts";

/** Parts of `jwt` that belong to no single issuer. */
export interface IdentityParts {
  readonly callers: Pick<CallerVerifierOptions, "revocations" | "certificateCallers">;
  readonly revocations: RevocationFile | undefined;
  /** OAuth servers that issue tokens for agents, as listed in the protected resource's metadata. */
  readonly authorizationServers: readonly string[];
}

interface RevocationListeners {
  readonly journal: AuditLog["journal"];
  readonly onRevocations?: (event: RevocationEvent) => void;
}

/** Starts watching the revocation list: from now on a change takes effect and is reported. */
export function watchRevocations(
  { revocations }: IdentityParts,
  { journal, onRevocations }: RevocationListeners,
): void {
  revocations?.watch((event) => {
    journal({ ...event }).catch(() => {});
    onRevocations?.(event);
  });
}

/** For a reader that verifies no token. */
const WITHOUT_TOKENS: ReviewObserver = { now: () => 0 };

/** Reads the issuers with their keys; returns undefined when a key could not be read. */
export function readIssuers(
  config: Config,
  { tokenSources: sources, targetKinds }: Pick<Modules, "tokenSources" | "targetKinds">,
  problems: string[],
  observer: ReviewObserver = WITHOUT_TOKENS,
): readonly IssuerProfile[] | undefined {
  const claims = claimsToKeep(config, targetKinds);
  const profiles = config.jwt.issuers.map((issuer, index) => {
    const at = `jwt.issuers[${index}]`;
    const source = sourceOf(issuer, sources);
    const partsOf = (section: string) => ({
      read: (setting: string, path: string) =>
        readNamed(config, { path, field: `${section}.${setting}` }, problems)?.toString("utf8"),
      readAgain: (path: string) => readPlainFile(pathFrom(config, path)).toString("utf8"),
      problem: (setting: string, message: string) => problems.push(`${section}.${setting}: ${message}`),
    });
    const keys = source?.open(issuer, { algorithms: issuer.algorithms, ...partsOf(at) });
    const review = reviewOf(issuer, partsOf(`${at}.tokenReview`), observer);
    const { issuer: name, audience, algorithms, operators, permissionsClaim, maxLifetimeSeconds } = issuer;
    const { subjectPermissions, profile, clockToleranceSeconds, tenants } = issuer;
    const typ = issuer.typ ?? (signsIn(config, issuer) ? ACCESS_TOKEN_TYPE : undefined);
    const rules = {
      profile,
      issuer: name,
      audience,
      algorithms,
      operators,
      permissionsClaim,
      maxLifetimeSeconds,
      clockToleranceSeconds,
      claims,
      tenants,
    };
    return keys && { ...rules, subjectPermissions, keys, ...review, ...(typ !== undefined && { typ }) };
  });
  return profiles.every((profile) => profile !== undefined) ? profiles : undefined;
}

/** Returns the source of an issuer's keys. */
export function sourceOf(issuer: Config["jwt"]["issuers"][number], sources: Modules["tokenSources"]) {
  return sources.find(({ key }) => (issuer as Readonly<Record<string, unknown>>)[key] !== undefined);
}

/** Returns what asks the API server about a token; its code is loaded at the first review. */
function reviewOf(
  { issuer, tokenReview, audience }: Config["jwt"]["issuers"][number],
  parts: Parameters<typeof credentialsIn>[1],
  observer: ReviewObserver,
): Pick<IssuerProfile, "review" | "probeReview"> {
  if (tokenReview === undefined) return {};
  const { url, caFile, tokenFile, whenUnavailable } = tokenReview;
  const credentials = credentialsIn({ caFile, tokenFile }, parts);
  const settings = { issuer, url, whenUnavailable, credentials, audiences: [audience].flat() };
  let reviewer: Promise<TokenReviewer> | undefined;
  return {
    async review(token, subject) {
      reviewer ??= import("../../pipeline/identity/token-review.ts").then(
        ({ TokenReviewer: Reviewer }) => new Reviewer(settings, observer),
      );
      await (await reviewer).review(token, subject);
    },
    async probeReview() {
      const { probeReview } = await import("../../pipeline/identity/token-review.ts");
      await probeReview(settings);
    },
  };
}

const ACCESS_TOKEN_TYPE = "at+jwt";

/** Returns whether operators sign in to the console at this issuer, which tells its access tokens from its ID tokens by their type. */
function signsIn({ console }: Config, { issuer, operators, profile }: Config["jwt"]["issuers"][number]): boolean {
  const { oidc } = console ?? {};
  return operators && profile === "generic" && oidc?.requireAtJwt === true && oidc.issuer === issuer;
}

/** Reads the revocation list and the table of certificates. Problems are added to `problems`. */
export function readIdentity(config: Config, problems: string[]): IdentityParts {
  const { revocationFile, clientCertificates } = config.jwt;
  if (clientCertificates.length > 0 && config.server.tls?.clientCaFile === undefined) {
    problems.push("jwt.clientCertificates: needs server.tls.clientCaFile, which is missing");
  }
  const callers = { certificateCallers: clientCertificates };
  const known = { callers, revocations: undefined, authorizationServers: authorizationServers(config) };
  if (revocationFile === undefined) return known;
  const revocations = RevocationFile.open(pathFrom(config, revocationFile));
  if (typeof revocations !== "string") {
    return { ...known, callers: { ...callers, revocations: () => revocations.list() }, revocations };
  }
  problems.push(`jwt.revocationFile: ${revocationFile} ${revocations}`);
  return known;
}

function authorizationServers({ jwt }: Config): readonly string[] {
  return jwt.issuers
    .filter(({ operators, profile, issuer }) => !operators && profile !== "kubernetes" && issuer.startsWith("https://"))
    .map(({ issuer }) => issuer);
}

export interface RevocationState {
  /** `stale`: the file is broken or missing, and the previous list applies. */
  readonly status: "ok" | "stale";
  readonly entries: number;
  readonly reason?: string;
}

/** Reported once per change. */
export type RevocationEvent =
  | { readonly type: "revocations.loaded"; readonly entries: number }
  | { readonly type: "revocations.refused"; readonly reason: string };

/** A revocation list in a file. A change takes effect within a second; while the file is broken, the previous list applies. */
class RevocationFile {
  readonly #path: string;
  #bytes: Buffer;
  #list: RevocationList;
  #problem: string | undefined;
  #watch: { close(): void } | undefined;

  private constructor(path: string, { bytes, list }: LoadedList) {
    this.#path = path;
    this.#bytes = bytes;
    this.#list = list;
  }

  /** Reads the file; returns a text with the reason when that fails. */
  static open(path: string): RevocationFile | string {
    const loaded = loadList(path);
    return typeof loaded === "string" ? loaded : new RevocationFile(path, loaded);
  }

  list(): RevocationList {
    return this.#list;
  }

  state(): RevocationState {
    const { entries } = this.#list;
    return this.#problem === undefined
      ? { status: "ok", entries }
      : { status: "stale", entries, reason: this.#problem };
  }

  watch(report: (event: RevocationEvent) => void): void {
    this.#watch ??= watchFiles(
      () => [this.#path],
      () => this.#reload(report),
    );
  }

  close(): void {
    this.#watch?.close();
  }

  #reload(report: (event: RevocationEvent) => void): void {
    const loaded = loadList(this.#path);
    const before = this.#problem;
    if (typeof loaded === "string") {
      this.#problem = loaded;
      if (before !== loaded) report({ type: "revocations.refused", reason: loaded });
      return;
    }
    this.#problem = undefined;
    if (before === undefined && loaded.bytes.equals(this.#bytes)) return;
    this.#bytes = loaded.bytes;
    this.#list = loaded.list;
    report({ type: "revocations.loaded", entries: loaded.list.entries });
  }
}

interface LoadedList {
  readonly bytes: Buffer;
  readonly list: RevocationList;
}

function loadList(path: string): LoadedList | string {
  try {
    const found = statSync(path);
    // Reading a pipe would block the whole process.
    if (!found.isFile()) return "is not a file";
    if (found.size > REVOCATION_BYTES_MAX) return `is over ${REVOCATION_BYTES_MAX} bytes`;
    const bytes = readFileSync(path);
    const list = readRevocations(bytes);
    return "problem" in list ? list.problem : { bytes, list };
  } catch (error) {
    return `cannot be read (${systemCode(error)})`;
  }
}
