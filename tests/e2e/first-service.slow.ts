import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { blocksOf } from "../support/documented.ts";
import { freePorts } from "../support/ports.ts";
import { RunningStc, run, STC } from "../support/stc.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

const blocks = blocksOf("docs/first-service.md");
const inLanguage = (language: string): readonly string[] =>
  blocks.filter((block) => block.language === language).map(({ text }) => text);
const [ordersService = "", cancelOrder = "", diskUsage = "", program = ""] = inLanguage("ts");
const [folders = "", tokens = "", ...commands] = inLanguage("sh");
const looks = commands.slice(0, 4).join("");
const [startOrders = "", serve = "", ...calls] = commands.slice(4);
const decides = calls.pop() ?? "";

mkdirSync(join(PROJECT, "var"), { recursive: true });
// The page is read in the clone's folder; this one stands below it, with the same things in it.
const clone = mkdtempSync(join(PROJECT, "var", "first-service-"));
const port = freePorts();
const ordersPort = freePorts();
const url = `http://127.0.0.1:${port}`;
const orders = { child: undefined as Bun.Subprocess<"ignore", "pipe", "inherit"> | undefined, out: "" };
let service: RunningStc;

async function startOrderService(): Promise<void> {
  const file = startOrders.trim().split(" ").at(-1) ?? "";
  const child = Bun.spawn([process.execPath, file], { cwd: clone, stdin: "ignore", stdout: "pipe", stderr: "inherit" });
  orders.child = child;
  void (async () => {
    for await (const part of child.stdout.pipeThrough(new TextDecoderStream())) orders.out += part;
  })();
  await until("the gRPC service", () => orders.out.includes("listening") || undefined);
}

/** Types the page's lines into a shell that stands where its reader does. */
async function type(lines: string): Promise<string> {
  const ours = lines
    .replaceAll("npx -y bun@1.4.5", `'${process.execPath}'`)
    .replace("http://127.0.0.1:8787", url)
    .replace("STC_TOKEN=", `STC_URL=${url} STC_TOKEN=`);
  const stc = `stc() { ${STC.map((word) => `'${word}'`).join(" ")} "$@"; }`;
  const { out, err } = await run(["sh", "-c", `${stc}\nexport STC_URL=${url}\n${ours}`], { cwd: clone });
  expect(err).toBe("");
  return out;
}

function put(path: string, text: string): void {
  writeFileSync(join(clone, path), text.replaceAll("127.0.0.1:9090", `127.0.0.1:${ordersPort}`));
}

beforeAll(async () => {
  await type(folders);
  for (const name of ["certs", "docs"]) symlinkSync(join(PROJECT, name), join(clone, name));
  put("shop/proto/orders.proto", inLanguage("proto")[0] ?? "");
  put("shop/orders.ts", ordersService);
  await startOrderService();
  put("shop/tools/disk-usage.ts", diskUsage);
  put("shop/tools/cancel-order.ts", cancelOrder);
  put("shop/stc.yaml", inLanguage("yaml")[0] ?? "");
  put("shop/program.ts", program);
  await type(tokens);
});

afterAll(async () => {
  await service?.end("SIGKILL");
  orders.child?.kill();
  await orders.child?.exited;
  rmSync(clone, { recursive: true, force: true });
});

test("before the start: no problem, the argv, the message, and the released answer", async () => {
  const out = await type(looks);
  expect(out).toStartWith("ok: 2 tools\n");
  expect(out).toContain('"-s",\n    "-k",\n    "--",\n    "/usr/lib"\n');
  expect(out).toContain('"path": "/shop.orders.v1.OrderService/CancelOrder"');
  expect(out).toMatch(/buyerEmail +mask .*"a\*\*@/);
});

test("the service runs the calls: the command runs, the change asks, alice approves, it runs, and all of it is in the audit", async () => {
  expect(serve).toBe("npx -y bun@1.4.5 run serve --config shop/stc.yaml\n");
  service = new RunningStc(["serve", "--config", join(clone, "shop/stc.yaml")], { env: { STC_PORT: String(port) } });
  await service.printed("listening");
  const called = await type(calls.slice(0, 2).join(""));
  expect(called).toMatch(/"kilobytes": \d+/);
  expect(called).toContain('{"status":"pending","approval":{"id":');
  expect(orders.out).not.toContain("cancelled");
  const approved = await type(calls.slice(2).join(""));
  expect(approved).toContain("approved (once): ");
  expect(approved).toContain('"status": "CANCELLED"');
  expect(approved).toMatch(/approval\.voted +cancel_order +alice/);
  expect(orders.out).toContain("cancelled AB-123456: twice");
  expect(approved.match(/ ALLOWED /g)).not.toBeNull();
});

test("a program decides the requests its rule covers, and leaves the others", async () => {
  const asked = await type(
    ["twice", "because"]
      .map((note) => `stc call cancel_order '{"orderId":"AB-123456","note":"${note}"}' --token-file shop/agent.token`)
      .join("\n"),
  );
  expect(asked.match(/"status": "pending"/g)).toHaveLength(2);
  const out = await type(decides);
  expect(out).toMatch(/cancel_order approve\n/);
  expect(out).toMatch(/cancel_order left to people\n/);
});

test("the library accepts the same as an object", async () => {
  expect(await type(`cd shop && ${process.execPath} program.ts`)).toBe("true\nsuccess\ndenied\n");
});

test("a plan that cannot be made tells the manifest's author why", async () => {
  put("shop/tools/disk-usage.ts", diskUsage.replace('"-s", "-k"],  ', '"-s"],  ').replace(/ {2}examples: .*\n/, ""));
  const plan = [...STC, "plan", "disk_usage", '{"folder":"/usr/lib"}', "--config", "shop/stc.yaml"];
  const { code, err } = await run(plan, { cwd: clone });
  expect(code).toBe(1);
  expect(err).toContain('token 1 of the argv begins with "-" and is not named in target.cli.options');
});
