export type AttributeValue = string | number;

/** One finished span. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  /** Whether the parent is a span of another process. */
  readonly isRemoteParent?: boolean;
  readonly name: string;
  readonly kind: "internal" | "server" | "client";
  /** Milliseconds since 1970. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, AttributeValue | undefined>>;
  /** What went wrong, in a word of ours; undefined when nothing did. */
  readonly error?: string | undefined;
}
