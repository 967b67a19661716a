import type { DefineTool } from "../../core/define-tool.ts";

/** The exports of `safe-tool-call` that manifests import. */
interface PackageExports extends Readonly<Record<string, unknown>> {
  readonly defineTool: DefineTool;
}

let load = (): Promise<PackageExports> => Promise.reject(new Error("no program has called providePackage"));

/**
 * Says what the manifests of this process get. Programs call it before they load manifests: the package's entry is above everything
 * that this file may import.
 */
export function providePackage(loadExports: () => Promise<PackageExports>): void {
  load = loadExports;
}

export function packageExports(): Promise<PackageExports> {
  return load();
}
