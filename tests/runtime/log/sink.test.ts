import { afterAll, expect, test } from "bun:test";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DescriptorSink } from "../../../src/runtime/log/sink.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-log-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Line {
  readonly line?: number;
  readonly msg: string;
  readonly dropped?: number;
}

/** Runs `chatty`, whose output nobody reads until it has said everything. */
async function chat(lines: number): Promise<{ readonly dropped: number; readonly said: readonly Line[] }> {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "../../support/bin/chatty.ts"), String(lines)], {
    ...({ stdin: "pipe", stdout: "pipe", stderr: "pipe" } as const),
  });
  const { value } = await child.stderr.getReader().read();
  const dropped = Number(new TextDecoder().decode(value));
  child.stdin.write("x");
  await child.stdin.end();
  const text = await new Response(child.stdout).text();
  const said = text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);
  return { dropped, said };
}

test("a reader that stalls delays nobody: the queue fills, lost lines are counted, and a line reports them", async () => {
  const { dropped, said } = await chat(20_000);
  const numbers = said.flatMap(({ line }) => (line === undefined ? [] : [line]));
  expect(dropped).toBeGreaterThan(10_000);
  expect(numbers).toEqual([...Array.from({ length: 20_000 - dropped }, (_, line) => line), -1]);
  expect(said.find(({ msg }) => msg === "lines of the log were dropped")?.dropped).toBe(dropped);
});

test("a slow reader misses nothing", async () => {
  const { dropped, said } = await chat(1_500);
  expect([dropped, said.length]).toEqual([0, 1_501]);
});

test("a file gets its lines at once, after its existing contents", () => {
  const path = join(folder, "log");
  writeFileSync(path, "before\n");
  const descriptor = openSync(path, "a");
  const sink = new DescriptorSink(descriptor, { gap: () => "gap\n" });
  sink.write("one\n");
  sink.write("two\n");
  closeSync(descriptor);
  expect(readFileSync(path, "utf8")).toBe("before\none\ntwo\n");
});

test("where nothing can be written lines are counted, and nothing is thrown", () => {
  const path = join(folder, "read-only");
  writeFileSync(path, "");
  const descriptor = openSync(path, "r");
  expect(() => writeSync(descriptor, "x")).toThrow();
  const sink = new DescriptorSink(descriptor, { gap: () => "gap\n" });
  for (let line = 0; line < 10; line += 1) sink.write("one\n");
  closeSync(descriptor);
  expect(sink.dropped).toBe(10);
});
