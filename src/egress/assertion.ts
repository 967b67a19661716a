import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { calculateJwkThumbprint, type JWK, SignJWT } from "jose";
import { sha256Hex } from "../core/digest.ts";
import { errorText } from "../core/error-text.ts";
import type { TargetContext } from "../core/target-kind.ts";
import type { CallerContext, EpochMs } from "../core/types.ts";
import { readNamed } from "./certificates.ts";

/** The `typ` of a caller assertion; no listener of the proxy accepts such a token. */
export const ASSERTION_TYPE = "stc-assertion+jwt";
const LIFETIME_SECONDS = 60;

/** The facts in an assertion: who calls, by which tool, and with which message. */
interface AssertedCall {
  /** The `aud` claim. */
  readonly system: string;
  readonly caller: CallerContext;
  readonly tool: string;
  /** `/package.Service/Method` of gRPC; method and path of HTTP: `POST /orders?dry=1`. */
  readonly method: string;
  readonly message: Uint8Array;
  readonly traceId: string;
}

export type AssertionSigner = (call: AssertedCall) => Promise<string>;

interface AssertionOptions {
  readonly issuer: string;
  /** PEM of a private key: P-256 signs ES256, Ed25519 signs EdDSA. */
  readonly privateKey: string | Buffer;
  readonly now: () => EpochMs;
  readonly newId: () => string;
}

type Actor = { readonly sub: string; readonly act?: Actor };

/** Nests the actors as in RFC 8693, the outermost first. */
function actorChain(actors: readonly string[]): Actor | undefined {
  return actors
    .toReversed()
    .reduce<Actor | undefined>((act, sub) => (act === undefined ? { sub } : { sub, act }), undefined);
}

function algorithmOf(key: KeyObject): "ES256" | "EdDSA" {
  const { asymmetricKeyType, asymmetricKeyDetails } = key;
  if (asymmetricKeyType === "ed25519") return "EdDSA";
  if (asymmetricKeyType === "ec" && asymmetricKeyDetails?.namedCurve === "prime256v1") return "ES256";
  throw new Error("must hold a private key on the curve P-256 or Ed25519");
}

function readKey(pem: string | Buffer): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch {
    throw new Error("holds no private key in PEM");
  }
}

/**
 * Creates a signer of caller assertions. The header's `kid` is the RFC 7638 thumbprint of the public key.
 *
 * @throws {Error} that says what is wrong with the key
 */
export function assertionSigner({ issuer, privateKey, now, newId }: AssertionOptions): AssertionSigner {
  const key = readKey(privateKey);
  const alg = algorithmOf(key);
  const thumbprint = calculateJwkThumbprint(createPublicKey(key).export({ format: "jwk" }) as JWK);
  return async ({ system, caller, tool, method, message, traceId }) => {
    const issuedAt = Math.floor(now() / 1000);
    const act = actorChain(caller.actors);
    return new SignJWT({
      callerIssuer: caller.issuer,
      ...(caller.tenant !== undefined && { tenant: caller.tenant }),
      ...(act !== undefined && { act }),
      tool,
      method,
      messageSha256: sha256Hex(message),
      traceId,
    })
      .setProtectedHeader({ alg, typ: ASSERTION_TYPE, kid: await thumbprint })
      .setIssuer(issuer)
      .setAudience(system)
      .setSubject(caller.subject)
      .setJti(newId())
      .setIssuedAt(issuedAt)
      .setExpirationTime(issuedAt + LIFETIME_SECONDS)
      .sign(key);
  };
}

/** The context of kinds whose systems get caller assertions. */
export interface AssertionContext extends TargetContext {
  readonly config: {
    readonly assertion?: { readonly issuer: string; readonly keyFile: string } | undefined;
  };
}

/** Returns the configured signer; undefined without one, or after a problem. */
export function readSigner(context: AssertionContext): AssertionSigner | undefined {
  const { config, problems, now, newId } = context;
  if (config.assertion === undefined) return undefined;
  const { issuer, keyFile } = config.assertion;
  const privateKey = readNamed(context, keyFile, "assertion.keyFile");
  if (privateKey === undefined) return undefined;
  try {
    return assertionSigner({ issuer, privateKey, now, newId });
  } catch (error) {
    problems.push(`assertion.keyFile: ${errorText(error)}`);
    return undefined;
  }
}
