import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT, sources } from "../architecture/sources.ts";
import { type Next, numbers, pick } from "./corpora.ts";

const HEX = "0123456789abcdef";

function hex(next: Next, length: number): string {
  let text = "";
  while (text.length < length) text += pick(next, [...HEX]);
  return text;
}

function whole(next: Next, below: number): number {
  return Math.floor(next() * below);
}

const two = (value: number) => String(value).padStart(2, "0");
const stamp = (next: Next) =>
  `2026-${two(1 + whole(next, 12))}-${two(1 + whole(next, 28))}T${two(whole(next, 24))}:${two(whole(next, 60))}:${two(whole(next, 60))}.${String(whole(next, 1000)).padStart(3, "0")}Z`;
const uuid = (next: Next) => `${hex(next, 8)}-${hex(next, 4)}-4${hex(next, 3)}-a${hex(next, 3)}-${hex(next, 12)}`;

const LINES: readonly ((next: Next) => string)[] = [
  (next) =>
    `${stamp(next)} INFO  [http-nio-8080-exec-${whole(next, 99)}] c.a.customer.CustomerService : handled GET /v1/customers/${uuid(next)} in ${whole(next, 900)} ms status=200 trace=${hex(next, 32)}`,
  (next) =>
    `${stamp(next)} WARN  retry ${whole(next, 9)} of 10 for order ${100000 + whole(next, 899999)} after ${whole(next, 60000)} ms (offset=${whole(next, 1e9)}, partition=${whole(next, 64)})`,
  (next) =>
    `web-${hex(next, 10)}-${hex(next, 5)}   1/1   Running   ${whole(next, 9)} (${whole(next, 59)}m ago)   ${whole(next, 99)}d   10.244.${whole(next, 256)}.${whole(next, 256)}   node-${whole(next, 99)}`,
  (next) => `index ${hex(next, 7)}..${hex(next, 7)} 100644`,
  (next) =>
    `@@ -${whole(next, 9999)},${whole(next, 99)} +${whole(next, 9999)},${whole(next, 99)} @@ function step${whole(next, 99)}() {`,
  (next) =>
    `+    const limit = ${whole(next, 1e6)}; // at most ${whole(next, 999)} a minute, see RFC ${1000 + whole(next, 8999)}`,
  (next) => `commit ${hex(next, 40)}`,
  (next) => `  image: registry.example.com/team/web@sha256:${hex(next, 64)}`,
  (next) =>
    `      "lodash": "^4.17.${whole(next, 30)}", "resolved": "https://packages.example.org/lodash/-/lodash-4.17.21.tgz"`,
  (next) =>
    `level=info ts=${1_700_000_000 + whole(next, 99_999_999)}.${whole(next, 999999)} caller=main.go:${whole(next, 999)} msg="synced" revision=${hex(next, 40)} duration_ms=${whole(next, 99999)}`,
  (next) =>
    `\tat com.example.app.Handler.handle(Handler.java:${whole(next, 999)}) ~[app-2.${whole(next, 99)}.jar!/:2.${whole(next, 99)}]`,
  (next) =>
    `gauge{pod="web-${whole(next, 9)}",port="${whole(next, 65535)}"} ${whole(next, 1e9)}.${whole(next, 1e9)} ${1_700_000_000_000 + whole(next, 99_999_999_999)}`,
  (next) =>
    `position: ${(next() * 180 - 90).toFixed(6)}, ${(next() * 360 - 180).toFixed(6)} accuracy=${(next() * 50).toFixed(2)}`,
  (next) =>
    `version ${whole(next, 20)}.${whole(next, 99)}.${whole(next, 99)}.${whole(next, 9999)} build ${20200101 + whole(next, 60000)} (${hex(next, 12)})`,
  (next) =>
    `row ${whole(next, 1e9)} ${whole(next, 1e6)} ${whole(next, 1e4)} ${whole(next, 1e3)} | ${(next() * 1000).toFixed(2)} | ${whole(next, 1e12)}`,
];

/** Logs, pod lists, diffs and metrics without anything to hide: as many UTF-16 units as asked for, or a line more. */
export function machineText(seed: number, chars: number): string {
  const next = numbers(seed);
  const lines: string[] = [];
  let length = 0;
  while (length < chars) {
    const line = pick(next, LINES)(next);
    lines.push(line);
    length += line.length + 1;
  }
  return lines.join("\n");
}

/** The product's own sources and documents, which speak of secrets without holding any. */
export function ownText(): readonly { readonly path: string; readonly text: string }[] {
  const documents = ["README.md", "src/README.md", "tools/README.md", "biome.json", "tsconfig.json", "package.json"];
  // Left out: the detectors' comments give examples, and the stand-in service and its tools have customers.
  const code = [...sources("src"), ...sources("tools")].filter(
    ({ path }) => !/^(src\/detection|tools\/customer-data)\/|^src\/cli\/development\/customer/.test(path),
  );
  return [...code, ...documents.map((path) => ({ path, text: readFileSync(join(ROOT, path), "utf8") }))];
}
