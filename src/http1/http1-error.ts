/** Bytes that are not valid HTTP/1, or that end in the middle of a message. */
export class Http1Error extends Error {
  override readonly name = "Http1Error";
  /** Name of llhttp's error, for example `HPE_INVALID_HEADER_TOKEN`. */
  readonly code: string;

  constructor(code: string, reason: string) {
    super(reason);
    this.code = code;
  }
}
