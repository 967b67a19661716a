/** A certificate that expires within this is named. */
const EXPIRES_SOON_MS = 14 * 86_400_000;

interface Expiry {
  readonly system: string;
  /** Milliseconds since 1970. */
  readonly notAfter: number;
}

/** Our own certificates that the services do not take any more, or soon will not. `now`: milliseconds since 1970. */
export function certificateNotes(certificates: readonly Expiry[], now: number): readonly string[] {
  return certificates.flatMap(({ system, notAfter }) => {
    if (notAfter - now > EXPIRES_SOON_MS) return [];
    const at = new Date(notAfter).toISOString();
    const what = notAfter <= now ? `expired at ${at}` : `expires soon, at ${at}`;
    return [`systems.${system}: its client certificate ${what}`];
  });
}
