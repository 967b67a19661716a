import { StartupError } from "../../../src/core/errors.ts";
import type { Config, Environment } from "../../../src/runtime/config/config.ts";
import { readConfig } from "../../support/build.ts";

export const ISSUER = { issuer: "https://idp.test", jwksUri: "https://idp.test/jwks.json" };

const MINIMAL = { tools: ["./tools"], audit: { dir: "./audit-logs" }, jwt: { issuers: [ISSUER] } };

/** Reads the smallest valid configuration with these sections in addition or instead. */
export function read(sections: object, environment: Environment = {}): Config {
  return readConfig({ ...MINIMAL, ...sections }, { folder: "/srv", environment, origin: "stc.yaml" });
}

/** Returns the problems of `read` without the file's name. */
export function problemsOf(sections: object, environment: Environment = {}): readonly string[] {
  try {
    read(sections, environment);
    return [];
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    return error.problems.map((problem) => problem.replace(/^stc\.yaml: /, ""));
  }
}
