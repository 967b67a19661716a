import type { CertificateSource } from "../../targets/grpc/connection/rotation.ts";
import { readPlainFile } from "../config/plain-file.ts";
import { watchFiles } from "./watched-files.ts";

/** Absolute paths of PEM files. */
interface CertificatePaths {
  readonly rootCert: string;
  readonly clientCert?: string;
  readonly clientKey?: string;
  readonly serverName?: string;
}

/** Certificates in files, as they stand there: a mounted secret is exchanged at any time. */
export function certificateFiles({ rootCert, clientCert, clientKey, serverName }: CertificatePaths): CertificateSource {
  const paths = [rootCert, clientCert, clientKey].filter((path) => path !== undefined);
  return {
    read: () => ({
      rootCert: readPlainFile(rootCert),
      ...(clientCert !== undefined && { clientCert: readPlainFile(clientCert) }),
      ...(clientKey !== undefined && { clientKey: readPlainFile(clientKey) }),
      ...(serverName !== undefined && { serverName }),
    }),
    watch(changed) {
      const watching = watchFiles(() => paths, changed);
      return () => watching.close();
    },
  };
}
