export type AttributeValue = string | number;

/** One finished span. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  /** True when the parent is a span of another process. */
  readonly isRemoteParent?: boolean;
  readonly name: string;
  readonly kind: "internal" | "server" | "client";
  /** Milliseconds since 1970. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, AttributeValue | undefined>>;
  /** The error, as one of our fixed terms; undefined without an error. */
  readonly error?: string | undefined;
}
