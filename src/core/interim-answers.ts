/** Maximum interim responses (1xx) per request. Each one takes time from the whole process, and no runtime limit counts them. */
const INTERIM_ANSWERS_MAX = 16;

/** The part of an HTTP request that this module uses. */
interface Sent {
  on(event: "information", listener: () => void): unknown;
  destroy(error: Error): unknown;
}

export class InterimAnswers extends Error {
  override readonly name = "InterimAnswers";

  constructor() {
    super("too many interim answers");
  }
}

/** Aborts a request whose server keeps sending interim responses and never the final one. */
export function boundInterimAnswers(request: Sent): void {
  let count = 0;
  request.on("information", () => {
    count += 1;
    if (count === INTERIM_ANSWERS_MAX) request.destroy(new InterimAnswers());
  });
}
