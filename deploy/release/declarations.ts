import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

const IMPORTED = /(?:\bfrom\s+|\bimport\s*\(\s*|^import\s+)"([^"]+)"/gm;
/** An import of types from a package. `typescript` writes each on one line. */
const PACKAGE_IMPORT = /^import (?:type )?\{ ([^}]+) \} from "([^."][^"]*)";$/gm;
/** Packages whose types a user of the library has: its peer, and those of the runtime. */
const KEPT = /^(?:zod(?:\/|$)|node:|bun:)/;

/**
 * Copies the declarations that `index.d.ts` needs. Types of packages that the bundle contains become `any`: the package does not
 * depend on them, and only internal parts name them.
 */
export function writeDeclarations(from: string, to: string): void {
  const needed = new Set([join(from, "index.d.ts")]);
  for (const file of needed) {
    const text = readFileSync(file, "utf8");
    for (const [, name = ""] of text.matchAll(IMPORTED)) {
      const other = join(dirname(file), name.replace(/\.tsx?$/, ".d.ts"));
      if (name.startsWith(".") && existsSync(other)) needed.add(other);
    }
    const target = join(to, relative(from, file));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, text.replace(PACKAGE_IMPORT, withoutPackage));
  }
}

function withoutPackage(statement: string, names: string, name: string): string {
  if (KEPT.test(name)) return statement;
  return names
    .split(", ")
    .map((imported) => `type ${imported.replace(/^type /, "")} = any;`)
    .join(" ");
}
