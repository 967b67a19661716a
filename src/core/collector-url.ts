import { isLoopback } from "./loopback.ts";

/** Returns the problems of a collector's address. Credentials belong in a file, not in the address. */
export function collectorProblems(url: string, headersFile: string | undefined): readonly string[] {
  if (!URL.canParse(url)) return [];
  const { protocol, hostname, username, password } = new URL(url);
  const faults: string[] = [];
  if (username !== "" || password !== "") faults.push("holds credentials: put them into headersFile");
  if (headersFile !== undefined && protocol === "http:" && !isLoopback(hostname)) {
    faults.push("must be https where headersFile is set: credentials over plain http can be read on the way");
  }
  return faults;
}
