import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { blocksOf } from "../support/documented.ts";
import { FirstDay } from "../support/first-day.ts";
import { freePorts } from "../support/ports.ts";
import { RunningStc, run, STC } from "../support/stc.ts";

const day = new FirstDay("/nonexistent");
const folder = mkdtempSync(join(tmpdir(), "stc authoring "));
let service: RunningStc | undefined;
afterAll(async () => {
  await service?.end("SIGKILL");
  await day.close();
  rmSync(folder, { recursive: true, force: true });
});

test("stc init, serve, token and call: the service's own tool answers, with the author masked", async () => {
  expect(await day.initToCall()).toBeGreaterThan(0);
});

test("stc import grpc, with three fields accepted: the agent gets these of the stand-in service, and no others", async () => {
  expect(await day.importToCall()).toBeGreaterThan(0);
});

test("the commands of the page about authoring do what it says", async () => {
  const lines = blocksOf("docs/authoring.md").filter(({ language }) => language === "sh");
  const block = (start: string): string => lines.find(({ text }) => text.trim().startsWith(start))?.text ?? "";
  const port = String(freePorts());
  const env = { STC_PORT: port, STC_URL: `http://127.0.0.1:${port}` };
  const paste = async (text: string): Promise<string> => {
    const stc = `stc() { ${STC.map((word) => `'${word}'`).join(" ")} "$@"; }`;
    const { code, out, err } = await run(["bash", "-ec", `${stc}\n${text}`], { cwd: folder, env });
    expect({ text, code, err }).toEqual({ text, code: 0, err: "" });
    return out;
  };
  expect(await paste(block("stc init"))).toContain("ok: 3 tools\n");
  const [, ...serve] = block("stc serve").trim().split(" ");
  service = new RunningStc(serve, { cwd: folder, env });
  await service.printed("listening");
  expect(await paste(block("cd my-service\n"))).toContain('"author": "a**@e******.com"');
  const [ask = "", operator = "", watch = ""] = block("stc call add_note").trim().split("\n");
  const here = (line: string): Promise<string> => paste(`cd my-service\n${line}`);
  const { id } = JSON.parse(await here(`${ask} || true`)).approval;
  await here(operator);
  // Watching needs a terminal.
  await here(watch.replace("approvals watch", `approvals approve ${id}`));
  expect(JSON.parse(await here(ask))).toMatchObject({ status: "success" });
  expect(await paste(`${block("eval")}complete -p stc`)).toContain("complete -o default -F _stc stc");
  expect(await paste(block("stc import grpc"))).toContain("GetCustomer");
});
