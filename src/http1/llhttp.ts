/// <reference path="./llhttp-wasm.d.ts" />

/**
 * llhttp, the HTTP/1 parser of Node, as WebAssembly. The package `undici` ships it. Its bare name resolves to a shim of this
 * runtime, so the file is named by its path. The file is not part of undici's public interface: the version is pinned, and a
 * test checks what the file exports and how it stores a parser.
 */

/** Kinds of messages, as llhttp numbers them. */
export const REQUEST = 1;
export const RESPONSE = 2;

/** Results of llhttp's functions and callbacks that this codebase uses. */
export const OK = 0;
export const SKIP_BODY = 1;
export const PAUSED = 21;
export const PAUSED_UPGRADE = 22;
export const STOPPED = 24;

/** Bytes that are parsed in one step; the area that they are copied to is shared by all parsers of the process. */
export const INPUT_BYTES = 65_536;

/** Position of the flags in a parser, for which the file exports no function. */
const FLAGS_AT = 50;
const FLAG_CHUNKED = 1 << 3;

/** Functions that the WebAssembly module calls; positions are those of the memory. */
export interface Callbacks {
  onMessageBegin(): number;
  onTarget(start: number, length: number): number;
  onHeaderName(start: number, length: number): number;
  onHeaderValue(start: number, length: number): number;
  onHead(statusCode: number, isUpgrade: boolean, keepsAlive: boolean): number;
  onBody(start: number, length: number): number;
  onMessageComplete(): number;
}

interface Exports {
  readonly memory: WebAssembly.Memory;
  _initialize(): void;
  malloc(bytes: number): number;
  llhttp_alloc(type: number): number;
  llhttp_free(parser: number): void;
  llhttp_reset(parser: number): void;
  llhttp_execute(parser: number, data: number, bytes: number): number;
  llhttp_finish(parser: number): number;
  llhttp_resume(parser: number): void;
  llhttp_resume_after_upgrade(parser: number): void;
  llhttp_get_error_pos(parser: number): number;
  llhttp_get_error_reason(parser: number): number;
  llhttp_errno_name(code: number): number;
  llhttp_get_method(parser: number): number;
  llhttp_method_name(method: number): number;
  llhttp_get_http_major(parser: number): number;
  llhttp_get_http_minor(parser: number): number;
}

export interface Llhttp {
  readonly exports: Exports;
  /** Address of the input area. */
  readonly input: number;
  /** Copies bytes, at most `INPUT_BYTES`, to the input area. */
  load(bytes: Uint8Array): void;
  text(address: number): string;
  isChunked(parser: number): boolean;
  methodOf(parser: number): string;
  /** Parses bytes of the input area, with the callbacks of one parser. Callbacks must not parse. */
  execute(callbacks: Callbacks, parser: number, at: number, bytes: number): number;
  finish(callbacks: Callbacks, parser: number): number;
}

let instance: Promise<Llhttp> | undefined;

/** Returns the process's one instance, which is created at the first use. */
export function loadLlhttp(): Promise<Llhttp> {
  instance ??= instantiated();
  return instance;
}

async function instantiated(): Promise<Llhttp> {
  const { default: wasm } = await import("undici/lib/llhttp/llhttp_simd-wasm.js");
  let active: Callbacks | undefined;
  const callbacks = (): Callbacks => {
    if (active === undefined) throw new Error("llhttp called back outside of a call");
    return active;
  };
  const enter = (own: Callbacks): void => {
    if (active !== undefined) throw new Error("a callback of llhttp must not parse");
    active = own;
  };
  const module = new WebAssembly.Module(wasm);
  const { exports } = new WebAssembly.Instance(module, {
    env: {
      wasm_on_message_begin: () => callbacks().onMessageBegin(),
      wasm_on_url: (_parser: number, start: number, length: number) => callbacks().onTarget(start, length),
      wasm_on_status: () => OK,
      wasm_on_header_field: (_parser: number, start: number, length: number) => callbacks().onHeaderName(start, length),
      wasm_on_header_value: (_parser: number, start: number, length: number) =>
        callbacks().onHeaderValue(start, length),
      wasm_on_headers_complete: (_parser: number, statusCode: number, upgrade: number, keepAlive: number) =>
        callbacks().onHead(statusCode, upgrade === 1, keepAlive === 1),
      wasm_on_body: (_parser: number, start: number, length: number) => callbacks().onBody(start, length),
      wasm_on_message_complete: () => callbacks().onMessageComplete(),
    },
  }) as unknown as { readonly exports: Exports };
  exports._initialize();
  const input = exports.malloc(INPUT_BYTES);
  let memory = new Uint8Array(exports.memory.buffer);
  const current = (): Uint8Array => {
    // Memory that has grown has a new buffer.
    if (memory.length === 0) memory = new Uint8Array(exports.memory.buffer);
    return memory;
  };
  const text = (address: number): string => {
    const bytes = current();
    return Buffer.from(bytes.subarray(address, bytes.indexOf(0, address))).toString("latin1");
  };
  const methods: string[] = [];
  return {
    exports,
    input,
    load: (bytes) => current().set(bytes, input),
    text,
    isChunked: (parser) => ((current()[parser + FLAGS_AT] ?? 0) & FLAG_CHUNKED) !== 0,
    methodOf(parser) {
      const method = exports.llhttp_get_method(parser);
      methods[method] ??= text(exports.llhttp_method_name(method));
      return methods[method];
    },
    execute(own, parser, at, bytes) {
      enter(own);
      try {
        return exports.llhttp_execute(parser, at, bytes);
      } finally {
        active = undefined;
      }
    },
    finish(own, parser) {
      enter(own);
      try {
        return exports.llhttp_finish(parser);
      } finally {
        active = undefined;
      }
    },
  };
}
