import { basename } from "node:path";
import { gzipSync } from "node:zlib";
import page from "./app/index.html";

/** Path below which the page's scripts and styles are served. */
export const ASSETS = "/console/assets/";

/** A script or style of the page. Its name contains a hash of its content. */
export interface Asset {
  readonly type: string;
  readonly text: string;
  readonly gzip: Uint8Array;
}

export interface ConsolePage {
  readonly html: string;
  readonly assets: ReadonlyMap<string, Asset>;
}

const TYPES: Readonly<Record<string, string>> = {
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

interface BuiltFile {
  readonly name: string;
  readonly text: string;
}

/** Returns the page: the files that the compiled binary contains, or a bundle that is made now. */
export async function loadPage(): Promise<ConsolePage> {
  // The runtime leaves `files` out when it runs from source, unlike its type.
  const { index, files = [] }: { readonly index: string; readonly files?: typeof page.files } = page;
  const built = files.length > 0 ? await embedded(files.map(({ path }) => path)) : await bundled(index);
  const html = built.find(({ name }) => name.endsWith(".html"));
  if (html === undefined) throw new Error("the console's page is not part of this build");
  const names = built.map(({ name }) => name);
  const assets = built.flatMap(({ name, text }) => {
    const type = TYPES[/\.([a-z]+)$/.exec(name)?.[1] ?? ""];
    if (type === undefined) return [];
    const served = withAssetPaths(text, names);
    return [[name, { type, text: served, gzip: gzipSync(served) }] as const];
  });
  return { html: withAssetPaths(html.text, names), assets: new Map(assets) };
}

function embedded(paths: readonly string[]): Promise<readonly BuiltFile[]> {
  return Promise.all(paths.map(async (path) => ({ name: basename(path), text: await Bun.file(path).text() })));
}

async function bundled(index: string): Promise<readonly BuiltFile[]> {
  const { outputs } = await Bun.build({
    entrypoints: [index],
    target: "browser",
    publicPath: "/",
    naming: "[name]-[hash].[ext]",
    minify: true,
    splitting: true,
  });
  return Promise.all(outputs.map(async (output) => ({ name: basename(output.path), text: await output.text() })));
}

/** The bundler writes the paths of other files as `"/name"`. */
function withAssetPaths(text: string, names: readonly string[]): string {
  return names.reduce((all, name) => all.replaceAll(`"/${name}"`, `"${ASSETS}${name}"`), text);
}
