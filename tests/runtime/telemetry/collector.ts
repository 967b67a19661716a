/** A span as a collector received it. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[];
  readonly status: { readonly code?: number };
}

interface Export {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: ReceivedSpan["attributes"] };
    readonly scopeSpans: readonly { readonly spans: readonly ReceivedSpan[] }[];
  }[];
}

/** Takes OTLP over HTTP, as a real collector would; what it got can be asked for. */
export class Collector {
  readonly spans: ReceivedSpan[] = [];
  readonly bodies: string[] = [];
  readonly requests: Request[] = [];
  readonly resources = new Set<string>();
  /** From now on answers with this, or never. */
  answer: () => Response | Promise<Response> = () => Response.json({});
  readonly #server: Bun.Server<undefined>;

  constructor(tls?: Bun.TLSOptions) {
    this.#server = Bun.serve({
      ...{ hostname: "127.0.0.1", port: 0, idleTimeout: 0, ...(tls !== undefined && { tls }) },
      fetch: async (request) => {
        this.requests.push(request);
        const body = await request.text();
        this.bodies.push(body);
        for (const { resource, scopeSpans } of (JSON.parse(body) as Export).resourceSpans) {
          this.resources.add(JSON.stringify(attributesOf(resource)));
          for (const { spans } of scopeSpans) this.spans.push(...spans);
        }
        return this.answer();
      },
    });
  }

  get url(): string {
    return this.#server.url.origin;
  }

  get names(): readonly string[] {
    return this.spans.map(({ name }) => name);
  }

  trace(traceId: string): readonly ReceivedSpan[] {
    return this.spans.filter((span) => span.traceId === traceId);
  }

  async close(): Promise<void> {
    await this.#server.stop(true);
  }
}

export function attributesOf({ attributes }: Pick<ReceivedSpan, "attributes">): Readonly<Record<string, unknown>> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, value["intValue"] ?? value["stringValue"]]));
}
