import { errorText, systemCode } from "../core/error-text.ts";
import { readSecret } from "../egress/credentials.ts";
import type { BundleSection } from "../runtime/config/bundle.ts";
import { parseYaml } from "../runtime/config/file.ts";
import { readPlainFile } from "../runtime/config/plain-file.ts";
import { BundleError } from "./bundle-error.ts";
import { assertSeparateKeys, type BundleExpectations } from "./checks.ts";
import type { BundleAddress } from "./client.ts";
import { readKeys } from "./metadata.ts";

/** Returns what the section accepts. Reads the files with keys, which may have changed. @throws {BundleError} */
export function expectationsOf(section: BundleSection): BundleExpectations {
  const { fleet, environment, threshold, minVersion, allowCode, keysFile, timestampKeysFile } = section;
  const expected = {
    fleet,
    environment,
    threshold,
    minVersion,
    allowsCode: allowCode,
    keys: keysIn("keysFile", keysFile),
    timestampKeys: keysIn("timestampKeysFile", timestampKeysFile),
    readYaml: parseYaml,
  };
  assertSeparateKeys(expected);
  return expected;
}

export function addressOf({ url, tls, tokenFile }: BundleSection): BundleAddress {
  const read = (path: string | undefined) => (path === undefined ? undefined : readPlainFile(path));
  return {
    url: new URL(url),
    credentials: () => ({
      tls: tls && { rootCert: read(tls.caFile), clientCert: read(tls.certFile), clientKey: read(tls.keyFile) },
      token: tokenFile === undefined ? undefined : readSecret(readPlainFile(tokenFile)),
    }),
  };
}

/** @throws {BundleError} without the path, which operators read in the log */
function keysIn(setting: string, path: string): BundleExpectations["keys"] {
  try {
    return readKeys(readPlainFile(path).toString());
  } catch (error) {
    const isUnreadable = error instanceof Error && "code" in error;
    const problem = isUnreadable ? `cannot be read (${systemCode(error)})` : errorText(error);
    throw new BundleError("signature", `bundle.${setting}: ${problem}`, error);
  }
}
