import { type ConfigInput, readConfig } from "./config.ts";
import { processEnvironment } from "./config-file.ts";
import type { CallResult } from "./core/call-result.ts";
import { type DefinedTool, isTool, type ToolFactory } from "./core/define-tool.ts";
import { toAnthropic, toJson, toOpenAi } from "./core/tool-formats.ts";
import type { Json, Tool } from "./core/types.ts";
import type { Departure } from "./proxy/call-scope.ts";
import { type Service, wire } from "./wiring.ts";

type JwtInput = ConfigInput["jwt"] | ConfigInput["jwt"]["issuers"][number];

/** The configuration of the library: the service's, as an object. Values stand where the file has paths, or paths as there. */
export interface SafeToolCallOptions extends Pick<ConfigInput, "systems" | "audit" | "commands" | "limits"> {
  /** Tools made by `defineTool`, or files and folders of manifests. */
  readonly tools: readonly (Tool | ToolFactory | string)[];
  /** One issuer profile, or `{ issuers: [...] }`. Keys as `jwks`, `publicKey` (PEM), `jwksUri`, `jwksFile` or `publicKeyFile`. */
  readonly jwt: JwtInput;
  /** Where relative paths are taken from; the working directory by default. */
  readonly folder?: string;
}

export interface CallOptions {
  /** Ends the call when the one who asked is gone. */
  readonly signal?: AbortSignal;
  readonly session?: string;
  /** The model's own id of the call; stands in the audit. */
  readonly callId?: string;
  /** What the agent says it is doing; stands in the audit, untrusted. */
  readonly reason?: string;
  readonly traceparent?: string;
}

export type ToolFormat = keyof typeof FORMATS;

const FORMATS = { json: toJson, openai: toOpenAi, anthropic: toAnthropic } as const;
const CLOSE_GRACE_MS = 10_000;

/** The proxy as a library: the same road, audit included, without a port. */
export class SafeToolCall {
  readonly #options: SafeToolCallOptions;
  readonly #config: ReturnType<typeof readConfig>;
  #starting: Promise<Service> | undefined;
  #service: Service | undefined;

  private constructor(options: SafeToolCallOptions) {
    this.#options = options;
    const { folder = process.cwd(), jwt, ...rest } = options;
    const issuers = "issuers" in jwt ? jwt : { issuers: [jwt] };
    const written = { ...rest, tools: [...options.tools], jwt: issuers };
    this.#config = readConfig(written, {
      folder,
      environment: { PATH: processEnvironment()["PATH"] },
      origin: "SafeToolCall.create",
    });
  }

  /**
   * Reads the options. Nothing is opened yet: `ready()` does that, and the first call waits for it.
   *
   * @throws {StartupError} with every mistake in the options
   */
  static create(options: SafeToolCallOptions): SafeToolCall {
    return new SafeToolCall(options);
  }

  /** Loads tools, keys and contracts, and opens the audit. @throws {StartupError} with everything that is wrong */
  async ready(): Promise<void> {
    await this.#start();
  }

  /** Runs a tool. A refusal is a result, not an exception: see `unwrap`. `jwt` is the bare token. */
  call<Input, Output>(
    tool: DefinedTool<Input, Output>,
    args: Input,
    jwt: string,
    options?: CallOptions,
  ): Promise<CallResult<Partial<Output>>>;
  call(tool: string, args: unknown, jwt: string, options?: CallOptions): Promise<CallResult>;
  async call(tool: string | DefinedTool, args: unknown, jwt: string, options: CallOptions = {}): Promise<CallResult> {
    const { proxy } = await this.#start();
    const { signal, ...rest } = options;
    const { result } = await proxy.call({
      ...rest,
      departure: signal && departureOf(signal),
      tool: typeof tool === "string" ? tool : String(tool?.name),
      args,
      authorization: typeof jwt === "string" && jwt !== "" ? `Bearer ${jwt}` : undefined,
      source: "library",
    });
    return result;
  }

  /** The tools in the shape that an LLM's API takes. Tools from paths and from the configuration are there once `ready()` is through. */
  listTools({ format = "openai" }: { readonly format?: ToolFormat } = {}): readonly Json[] {
    const tools = this.#service?.registry.list().map(({ tool }) => tool) ?? this.#options.tools.filter(isTool);
    return tools.map((tool) => FORMATS[format](tool) as unknown as Json);
  }

  /** Waits for calls under way, then closes targets and audit. */
  async close(): Promise<void> {
    const service = await this.#starting?.catch(() => undefined);
    await service?.close(CLOSE_GRACE_MS);
  }

  #start(): Promise<Service> {
    this.#starting ??= wire(this.#config).then((service) => {
      this.#service = service;
      return service;
    });
    return this.#starting;
  }
}

function departureOf(signal: AbortSignal): Departure {
  return {
    get gone() {
      return signal.aborted;
    },
    listen(listener) {
      signal.addEventListener("abort", listener, { once: true });
      return () => signal.removeEventListener("abort", listener);
    },
  };
}
