const PORT_MAX = 65_535;

export const NO_PORT = `must end in a port from 1 to ${PORT_MAX}`;

/** Whether the digits behind the last colon are a port that something can listen at. What ends otherwise is for others to tell. */
export function hasPort(address: string): boolean {
  const [, digits] = /:(\d{1,5})$/.exec(address) ?? [];
  return digits === undefined || (Number(digits) >= 1 && Number(digits) <= PORT_MAX);
}
