/** Answers before the answer (1xx). Each takes time of the whole process, and no bound of the runtime's counts them. */
const INTERIM_ANSWERS_MAX = 16;

/** What is needed of a request over HTTP. */
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

/** Ends a request whose far side goes on without coming to its answer. */
export function boundInterimAnswers(request: Sent): void {
  let count = 0;
  request.on("information", () => {
    count += 1;
    if (count === INTERIM_ANSWERS_MAX) request.destroy(new InterimAnswers());
  });
}
