/** Returns whether a host (lower case, no port) is `localhost`, in 127.0.0.0/8, or ::1 with or without brackets. */
export function isLoopback(host: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\]|::1)$/.test(host);
}

const PORT_MAX = 65_535;

export const NO_PORT = `must end in a port from 1 to ${PORT_MAX}`;

/** Returns false when the digits after the last colon are not a valid port. Addresses without a port pass. */
export function hasPort(address: string): boolean {
  const [, digits] = /:(\d{1,5})$/.exec(address) ?? [];
  return digits === undefined || (Number(digits) >= 1 && Number(digits) <= PORT_MAX);
}

/** Returns the problems of a collector's URL. Credentials belong in a file, not in the URL. */
export function collectorProblems(
  url: string,
  file: string | undefined,
  setting: "headersFile" | "credentialsFile" = "headersFile",
): readonly string[] {
  if (!URL.canParse(url)) return [];
  const { protocol, hostname, username, password } = new URL(url);
  const faults: string[] = [];
  if (username !== "" || password !== "") faults.push(`holds credentials: put them into ${setting}`);
  if (file !== undefined && protocol === "http:" && !isLoopback(hostname)) {
    faults.push(`must be https where ${setting} is set: credentials over plain http can be read on the way`);
  }
  return faults;
}

/** Returns the parameters of a URL by name; undefined when one has another name, or is there twice. */
export function parametersIn<Name extends string>(
  search: URLSearchParams,
  names: readonly Name[],
): Readonly<Partial<Record<Name, string>>> | undefined {
  const found: Partial<Record<Name, string>> = {};
  for (const [name, value] of search) {
    const known = names.find((one) => one === name);
    if (known === undefined || found[known] !== undefined) return undefined;
    found[known] = value;
  }
  return found;
}
