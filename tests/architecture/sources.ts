import { readdirSync, readFileSync } from "node:fs";
import { join, relative, resolve } from "node:path";

export const ROOT = resolve(import.meta.dir, "../..");

export interface Source {
  /** From the project's folder: `src/core/types.ts`. */
  readonly path: string;
  readonly text: string;
  /** Without comments and string contents, so that words in prose do not count. */
  readonly code: string;
}

export function sources(folder: string): readonly Source[] {
  return readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => {
      const file = join(entry.parentPath, entry.name);
      const text = readFileSync(file, "utf8");
      const code = text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/^\s*\/\/.*$/gm, "");
      return { path: relative(ROOT, file), text, code };
    });
}

/** What a file imports, type-only imports and dynamic ones too. */
export function importsOf({ path, code }: Source): readonly string[] {
  const found = [...code.matchAll(/(?:\bfrom\s+|\bimport\s*\(\s*|^import\s+)"([^"]+)"/gm)];
  return found.map(([, name = ""]) => (name.startsWith(".") ? relative(ROOT, resolve(ROOT, path, "..", name)) : name));
}
