import { afterEach, beforeEach, expect, test } from "bun:test";
import { RawServer } from "../support/raw-server.ts";
import { ReloadService } from "../support/reload-service.ts";
import { decision, pointAt } from "./authzen-service.ts";

const PERMIT = "permit(principal, action, resource);";
let service: ReloadService;
let pdp: RawServer;
beforeEach(async () => {
  pdp = await RawServer.start();
  pdp.answer = () => decision(true);
  service = new ReloadService();
  service.write("rules.cedar", PERMIT);
  configure();
  await service.start();
});
afterEach(async () => {
  await service.end();
  pdp.close();
});

function configure(more: Readonly<Record<string, unknown>> = { cacheSeconds: 300 }): void {
  const rules = { name: "rules", cedar: { policiesFile: "rules.cedar" } };
  service.configure({ decisionPoints: [rules, pointAt(pdp, more)] });
}

async function states(): Promise<readonly { readonly name: string; readonly verdicts: object }[]> {
  const { body } = await service.send("GET", "/readyz", { token: await service.operator() });
  return body.decisionPoints;
}

test("changed policies are adopted by a reload, and broken ones are refused while the former stay", async () => {
  expect(await service.says()).toBe("first");
  service.write("rules.cedar", `${PERMIT} forbid(principal, action, resource == Tool::"hello");`);
  expect(await service.says()).toBe("first");
  expect((await service.reload()).http).toBe(200);
  expect(await service.says()).toBe("POLICY_DENIED");
  service.write("rules.cedar", "permit(");
  const refused = await service.reload();
  expect([refused.http, refused.body.problems]).toEqual([
    422,
    [expect.stringMatching(/decisionPoints\[0\]\.cedar\.policiesFile: rules\.cedar: line 1/)],
  ]);
  expect(await service.says()).toBe("POLICY_DENIED");
  service.write("rules.cedar", PERMIT);
  await service.reload();
  expect(await service.says()).toBe("first");
});

test("kept answers end with the configuration, and counts go on", async () => {
  await service.says();
  await service.says();
  expect(pdp.requests).toHaveLength(1);
  service.write("rules.cedar", `${PERMIT} // changed`);
  await service.reload();
  pdp.answer = () => decision(false);
  expect(await service.says()).toBe("POLICY_DENIED");
  expect(pdp.requests).toHaveLength(2);
  expect((await states()).map(({ name, verdicts }) => [name, verdicts])).toEqual([
    ["rules", { allow: 3, deny: 0, ask: 0 }],
    ["pdp", { allow: 2, deny: 1, ask: 0 }],
  ]);
});

test("points are added and taken away by a reload", async () => {
  service.configure({});
  expect((await service.reload()).http).toBe(200);
  pdp.answer = () => decision(false);
  expect([await service.says(), await states()]).toEqual(["first", undefined as never]);
  configure();
  await service.reload();
  expect(await service.says()).toBe("POLICY_DENIED");
});

test("a call that waits for the former point is decided by it, and later calls by the next", async () => {
  let answer: (text: string) => void = () => {};
  const asked = new Promise<void>((resolve) => {
    pdp.answer = ({ socket }) => {
      answer = (text) => void socket.write(Buffer.from(text, "latin1"));
      resolve();
      return undefined;
    };
  });
  configure({ timeoutMs: 30_000 });
  await service.reload();
  const waiting = service.says();
  await asked;
  service.write("rules.cedar", `${PERMIT} forbid(principal, action, resource == Tool::"hello");`);
  await service.reload();
  answer(decision(true));
  expect(await waiting).toBe("first");
  pdp.answer = () => decision(true);
  expect(await service.says()).toBe("POLICY_DENIED");
});
