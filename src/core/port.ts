const PORT_MAX = 65_535;

export const NO_PORT = `must end in a port from 1 to ${PORT_MAX}`;

/**
 * Returns whether the digits after the last colon are a port that something can listen on. Returns true for an address that does
 * not end in a port: other checks report that.
 */
export function hasPort(address: string): boolean {
  const [, digits] = /:(\d{1,5})$/.exec(address) ?? [];
  return digits === undefined || (Number(digits) >= 1 && Number(digits) <= PORT_MAX);
}
