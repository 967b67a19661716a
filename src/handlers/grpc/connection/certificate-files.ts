import { lstatSync, readFileSync, watch } from "node:fs";
import { dirname } from "node:path";
import type { GrpcTls } from "./tls-identity.ts";

/** Where the certificates of one system come from, and how to hear that they have changed. */
export interface CertificateSource {
  /** Reads them as they stand now. Throws when one cannot be read. */
  read(): GrpcTls;
  /** Calls `changed` when something happened near them, often without need; answers how to stop. */
  watch(changed: () => void): () => void;
}

/** Absolute paths of PEM files. */
export interface CertificatePaths {
  readonly rootCert: string;
  readonly clientCert?: string;
  readonly clientKey?: string;
  readonly serverName?: string;
}

/**
 * Certificates in files. Their folders are watched, not the files: Kubernetes and SPIFFE replace a symbolic link beside them,
 * and a watch on a file is dead after the first exchange. So is one on a folder that is itself such a link: the folder that
 * holds the link is watched too.
 */
export function certificateFiles({ rootCert, clientCert, clientKey, serverName }: CertificatePaths): CertificateSource {
  const paths = [rootCert, clientCert, clientKey].filter((path) => path !== undefined);
  const named = paths.map((path) => dirname(path));
  const folders = new Set([...named, ...named.filter(isLink).map((folder) => dirname(folder))]);
  return {
    read: () => ({
      rootCert: readFileSync(rootCert),
      ...(clientCert !== undefined && { clientCert: readFileSync(clientCert) }),
      ...(clientKey !== undefined && { clientKey: readFileSync(clientKey) }),
      ...(serverName !== undefined && { serverName }),
    }),
    watch(changed) {
      const watchers = [...folders].flatMap((folder) => watchFolder(folder, changed));
      return () => {
        for (const stop of watchers) stop();
      };
    },
  };
}

function isLink(folder: string): boolean {
  return lstatSync(folder, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

/** Nothing where a folder cannot be watched: whoever watches also looks from time to time. */
function watchFolder(folder: string, changed: () => void): readonly (() => void)[] {
  try {
    const watcher = watch(folder, { persistent: false }, changed);
    watcher.on("error", () => watcher.close());
    return [() => watcher.close()];
  } catch {
    return [];
  }
}
