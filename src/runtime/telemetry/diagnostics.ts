import { DiagLogLevel, diag } from "@opentelemetry/api";

const PARTIAL_SUCCESS = "Received Partial Success response:";
const TEXT_CHARACTERS_MAX = 200;
const TEXTS_MAX = 32;

/**
 * What OpenTelemetry's packages say about themselves. They have one place a process to say it, and say only there that a
 * collector took a request but not all of its spans.
 */
class Diagnostics {
  #rejected = 0;
  readonly #told = new Set<string>();
  #report: (message: string) => void = () => {};

  /** `report` gets each warning once, without what stands behind a colon: those are texts of others. */
  listen(report: (message: string) => void): void {
    this.#report = report;
    const [silent, warn] = [() => {}, (...said: unknown[]) => this.#hear(said)];
    diag.setLogger(
      { error: warn, warn, info: silent, debug: silent, verbose: silent },
      { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
    );
  }

  /** Of the request whose success is told next: how many of its spans were rejected. */
  takeRejected(): number {
    const rejected = this.#rejected;
    this.#rejected = 0;
    return rejected;
  }

  #hear(said: readonly unknown[]): void {
    const [first, second] = said;
    if (first === PARTIAL_SUCCESS) {
      this.#rejected = rejectedSpans(second);
      return;
    }
    const words = said.slice(0, 2).filter((text) => typeof text === "string");
    const text = words.map((each) => each.split(":", 1)[0]?.slice(0, TEXT_CHARACTERS_MAX)).join(": ");
    if (text === "" || this.#told.has(text) || this.#told.size === TEXTS_MAX) return;
    this.#told.add(text);
    this.#report(`OpenTelemetry: ${text}`);
  }
}

export const diagnostics = new Diagnostics();

function rejectedSpans(partialSuccess: unknown): number {
  try {
    const parsed = JSON.parse(String(partialSuccess)) as { readonly rejectedSpans?: unknown } | null;
    const rejected = Number(parsed?.rejectedSpans ?? 0);
    return rejected > 0 ? Math.trunc(rejected) : 0;
  } catch {
    return 0;
  }
}
