declare module "undici/lib/llhttp/llhttp_simd-wasm.js" {
  /** The bytes of the WebAssembly module. */
  const wasm: Uint8Array<ArrayBuffer>;
  export = wasm;
}
