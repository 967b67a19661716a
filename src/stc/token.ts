import { print } from "./output.ts";

export interface TokenOptions {
  readonly sub: string;
  readonly permission: readonly string[];
  readonly operator?: boolean;
  /** Seconds. */
  readonly ttl: number;
}

/** `stc token`: a token of the development issuers; prints the token and nothing else. No other keys are ever used. */
export async function token({ sub, permission, operator, ttl }: TokenOptions): Promise<void> {
  const { DEVELOPMENT_DIRECTORY } = await import("../dev/stand.ts");
  const { signDevelopmentToken } = await import("../dev/keys.ts");
  print.line(
    await signDevelopmentToken({
      directory: DEVELOPMENT_DIRECTORY,
      operator: operator === true,
      sub,
      permissions: permission,
      ttlSeconds: ttl,
      now: Date.now(),
    }),
  );
}
