import { inflateRawSync } from "node:zlib";

const END_BYTES = 22;
const END_SIGNATURE = 0x06054b50;
const STORED = 0;

/** One file out of an archive without a comment, as packers of small archives write them. */
export function unzipEntry(archive: Buffer, name: string): Buffer {
  const end = archive.length - END_BYTES;
  if (archive.readUInt32LE(end) !== END_SIGNATURE) throw new Error("the archive does not end as expected");
  let at = archive.readUInt32LE(end + 16);
  for (let left = archive.readUInt16LE(end + 10); left > 0; left -= 1) {
    const nameBytes = archive.readUInt16LE(at + 28);
    if (archive.toString("utf8", at + 46, at + 46 + nameBytes) === name) return contentOf(archive, at);
    at += 46 + nameBytes + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32);
  }
  throw new Error(`the archive holds no ${name}`);
}

function contentOf(archive: Buffer, entry: number): Buffer {
  const method = archive.readUInt16LE(entry + 10);
  const bytes = archive.readUInt32LE(entry + 20);
  const header = archive.readUInt32LE(entry + 42);
  const from = header + 30 + archive.readUInt16LE(header + 26) + archive.readUInt16LE(header + 28);
  const packed = archive.subarray(from, from + bytes);
  return method === STORED ? packed : inflateRawSync(packed);
}
