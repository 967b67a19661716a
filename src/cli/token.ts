import { randomUUID } from "node:crypto";
import { OPERATOR_PERMISSIONS } from "../core/operator-permissions.ts";
import { subjectProblem } from "../pipeline/identity/claims.ts";
import { isClone } from "../runtime/own-code.ts";
import { NO_DEVELOPMENT } from "./configuration.ts";
import { print, wrongUsage } from "./output.ts";

interface TokenOptions {
  readonly sub: string;
  readonly permission?: readonly string[];
  readonly operator?: boolean;
  readonly session?: string;
  /** Further claims, each `name=text`. */
  readonly claim?: readonly string[];
  /** Folder of the keys. */
  readonly keys?: string;
  /** Token lifetime in seconds. */
  readonly ttl: number;
}

/** Leaves out what a token has only when `--permission` names it. */
const DEVELOPMENT_PERMISSIONS: readonly string[] = Object.entries(OPERATOR_PERMISSIONS).flatMap(([name, row]) =>
  row.onlyByName === true ? [] : [name],
);

/** A call that waits for an approval ends with its token. */
const DEVELOPMENT_TOKEN_SECONDS = 3_600;

/** Registered claims, and those of other options: `--claim` cannot set them. */
const RESERVED_CLAIMS: readonly string[] = ["iss", "sub", "aud", "exp", "nbf", "iat", "sid", "permissions"];

const VISIBLE = /^[\x21-\x7e]{1,128}$/;

/** `stc token`: prints a token of the development issuers and nothing else. Never uses keys of other issuers. */
export async function token({
  sub,
  permission,
  operator,
  session,
  claim = [],
  ttl,
  keys,
}: TokenOptions): Promise<void> {
  const isOperator = operator === true;
  if (isOperator && session !== undefined) return wrongUsage("an operator's token has no session");
  if (session !== undefined && !VISIBLE.test(session)) {
    return wrongUsage("a session must be 1 to 128 visible characters");
  }
  const problem = subjectProblem(sub);
  if (problem !== undefined) return wrongUsage(`no service would accept this subject: ${problem}`);
  if (permission?.some((name) => !VISIBLE.test(name)) === true) {
    return wrongUsage("no service would accept this permission: 1 to 128 visible characters, no space");
  }
  const claims = claim.map((each) => /^([^=]+)=(.*)$/s.exec(each)?.slice(1) ?? []);
  if (claims.some(([name = ""]) => name === "" || RESERVED_CLAIMS.includes(name))) {
    return wrongUsage(`a claim is name=text, and not one of ${RESERVED_CLAIMS.join(", ")}`);
  }
  if (keys === undefined && !isClone()) return wrongUsage(`${NO_DEVELOPMENT} and give --keys`);
  const directory = keys ?? (await import("./development/environment.ts")).DEVELOPMENT_DIRECTORY;
  const { signDevelopmentToken } = await import("./development/keys.ts");
  print.line(
    await signDevelopmentToken({
      directory,
      operator: isOperator,
      sub,
      permissions: permission ?? (isOperator ? DEVELOPMENT_PERMISSIONS : []),
      session: isOperator ? undefined : (session ?? randomUUID()),
      claims: Object.fromEntries(claims),
      ttlSeconds: ttl,
      nowMs: Date.now(),
    }),
  );
}

/** Signs a token with everything that an operator of the development stand may do. */
export async function developmentOperatorToken(): Promise<string> {
  const { DEVELOPMENT_DIRECTORY } = await import("./development/environment.ts");
  const { signDevelopmentToken } = await import("./development/keys.ts");
  return signDevelopmentToken({
    directory: DEVELOPMENT_DIRECTORY,
    operator: true,
    sub: "me",
    permissions: DEVELOPMENT_PERMISSIONS,
    ttlSeconds: DEVELOPMENT_TOKEN_SECONDS,
    nowMs: Date.now(),
  });
}

/**
 * Returns a function that signs a token for the agent of the development stand's examples; the tokens share one session. Returns
 * undefined, after printing the reason, outside a clone.
 */
export async function developmentTokens(): Promise<(() => Promise<string>) | undefined> {
  if (!isClone()) {
    wrongUsage(NO_DEVELOPMENT);
    return undefined;
  }
  const { DEVELOPMENT_DIRECTORY } = await import("./development/environment.ts");
  const { signDevelopmentToken } = await import("./development/keys.ts");
  const { DEMO_AGENT } = await import("./development/welcome.ts");
  const session = randomUUID();
  const agent = { directory: DEVELOPMENT_DIRECTORY, operator: false, ...DEMO_AGENT, session } as const;
  return () => signDevelopmentToken({ ...agent, ttlSeconds: DEVELOPMENT_TOKEN_SECONDS, nowMs: Date.now() });
}
