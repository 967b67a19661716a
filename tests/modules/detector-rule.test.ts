import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { defineTool } from "safe-tool-call";
import { z } from "zod";
import { Detector } from "../../src/detection/sensitive.ts";
import { type BuildModules, MODULES } from "../../src/modules.ts";
import { ModuleWorld } from "./module-world.ts";
import { badgeNumber } from "./toy-detector-rule.ts";

const WITH_BADGES: BuildModules = { ...MODULES, detectorRules: { ...MODULES.detectorRules, badges: [badgeNumber] } };

const SECRET = "KX-204817";
const note = {
  classification: "write",
  category: "network",
  permissions: { required: ["money:send"] },
  input: z.strictObject({ text: z.string().max(200) }),
  inputPolicy: { text: "allow" },
  output: z.object({ text: z.string() }),
  outputPolicy: { text: "allow" },
  handler: ({ text }: { readonly text: string }) => ({ text: `noted: ${text}` }),
} as const;
const TOOLS = [
  defineTool({ ...note, name: "pay", description: "Notes a text", approval: { needsApproval: () => false } }),
  defineTool({ ...note, name: "refund", description: "Notes a text after an approval", approval: { required: true } }),
];

const world = new ModuleWorld();
afterEach(() => world.stop());
afterAll(() => world.end());

describe("a detector rule that one line of the build registers", () => {
  test("hides what it finds in answers and in the audit", async () => {
    await world.start(WITH_BADGES, { tools: TOOLS });
    const { http, body } = await world.call("pay", { text: `badge ${SECRET} for room 4` });
    expect({ http, result: body.result }).toEqual({
      http: 200,
      result: { text: "noted: badge [REDACTED] for room 4" },
    });
    expect(body.filteredFields).toEqual(["text"]);
    expect(JSON.stringify(world.entry(body.traceId))).not.toContain(SECRET);
  });

  test("hides it from approvers", async () => {
    await world.start(WITH_BADGES, { tools: TOOLS });
    const { http, body } = await world.call("refund", { text: `badge ${SECRET}` });
    expect(http).toBe(202);
    const shown = await world.send("GET", `/approvals/${body.approval.id}`, { token: await world.person() });
    expect(JSON.stringify(shown.body)).not.toContain(SECRET);
  });

  test("does nothing in a build without it", async () => {
    await world.start(MODULES, { tools: TOOLS });
    const { body } = await world.call("pay", { text: `badge ${SECRET}` });
    expect(body.result).toEqual({ text: `noted: badge ${SECRET}` });
  });

  test("finds exactly what its own examples say", () => {
    const detector = new Detector(Object.values(WITH_BADGES.detectorRules).flat());
    for (const example of badgeNumber.matches ?? []) {
      const text = example.replace(/[«»]/g, "");
      expect(detector.filterSecrets(text).text).toBe(example.replace(/«.*»/, "[REDACTED]"));
    }
    for (const text of badgeNumber.misses ?? []) expect(detector.filterSecrets(text).text).toBe(text);
  });
});
