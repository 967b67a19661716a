/** The hub gave no answer within the time limit, or its store is away. The request may have been carried out. */
export class HubUnavailable extends Error {
  override readonly name = "HubUnavailable";
}

/**
 * The hub refuses the request, and would refuse it again. Methods of the hub throw it, too: the member then gets the code and the
 * message.
 */
export class HubRefusal extends Error {
  override readonly name = "HubRefusal";
  readonly status: 400 | 401 | 403 | 404 | 409 | 413;
  readonly code: string;

  constructor(status: HubRefusal["status"], code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Returns the refusal of a request that names a caller of an issuer for which the member may not speak. */
export function issuerNotAllowed({ name }: { readonly name: string }): HubRefusal {
  return new HubRefusal(403, "ISSUER_NOT_ALLOWED", `${name} may not name callers of this issuer`);
}
