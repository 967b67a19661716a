import { type BigIntStats, fstatSync } from "node:fs";

/** Facts about the file that a descriptor refers to. */
export interface FileIdentity {
  readonly kind: "file" | "directory" | "link" | "other";
  /** `device:inode`: identifies a file, whatever its name. */
  readonly id: string;
  readonly links: number;
  readonly bytes: number;
  /** Permission bits. */
  readonly mode: number;
  readonly owner: { readonly uid: number; readonly gid: number };
  /** Changes with every change of content or attributes. */
  readonly version: string;
}

export function identify(fd: number): FileIdentity {
  const stat = fstatSync(fd, { bigint: true });
  return {
    kind: kindOf(stat),
    id: idOf(stat),
    links: Number(stat.nlink),
    bytes: Number(stat.size),
    mode: Number(stat.mode & 0o777n),
    owner: { uid: Number(stat.uid), gid: Number(stat.gid) },
    version: `${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}`,
  };
}

export function idOf({ dev, ino }: Pick<BigIntStats, "dev" | "ino">): string {
  return `${dev}:${ino}`;
}

function kindOf(stat: BigIntStats): FileIdentity["kind"] {
  if (stat.isFile()) return "file";
  if (stat.isDirectory()) return "directory";
  return stat.isSymbolicLink() ? "link" : "other";
}
