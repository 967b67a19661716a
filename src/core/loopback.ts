/**
 * Returns whether a host is this machine: `localhost`, 127.0.0.0/8, or ::1 with or without brackets. `host` must be in lower
 * case, without a port.
 */
export function isLoopback(host: string): boolean {
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\]|::1)$/.test(host);
}
