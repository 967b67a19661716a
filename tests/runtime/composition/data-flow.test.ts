import { expect, test } from "bun:test";
import { z } from "zod";
import type { DataFlow } from "../../../src/core/types.ts";
import { toolFlow } from "../../../src/data-flow/declarations.ts";
import { defineTool } from "../../../src/index.ts";
import { MODULES } from "../../../src/modules.ts";
import { dataFlowNotes, flowContextOf } from "../../../src/runtime/composition/data-flow.ts";

/** A tool of an HTTP API that takes free text. */
function tool(name: string, dataFlow?: DataFlow) {
  return defineTool({
    ...({ name, description: "Posts a comment", classification: "write", category: "network" } as const),
    permissions: { required: ["comments:write"] },
    input: z.strictObject({ text: z.string().max(100) }),
    target: { system: "comments", http: { method: "POST", path: "/comments", body: ["text"] } },
    output: z.object({ id: z.string() }),
    outputPolicy: { id: "allow" },
    ...(dataFlow !== undefined && { dataFlow }),
  });
}

const notes = (...tools: readonly ReturnType<typeof tool>[]) =>
  dataFlowNotes({ commands: { unconfinedBash: false }, systems: {} } as never, tools as never, MODULES.targetKinds);

test("tools that declare what they read, and not what they send, are named", async () => {
  const reads: DataFlow = { reads: [] };
  expect(await notes(tool("post"), tool("answer", reads), tool("quote", { reads: [], sends: [] }))).toEqual([
    "dataFlow: sends is left out for answer: calls count as sending outside, as is usual for the kind; declare sends: [] or [outside]",
  ]);
  expect(await notes(tool("post"), tool("quote", { reads: [], sends: ["outside"] }))).toEqual([]);
});

test("tools whose calls may leave all destinations out are named, unless the manifest says what that means", async () => {
  const sending = (name: string, to: z.ZodType, dataFlow: DataFlow = {}) => ({
    ...tool(name),
    input: z.strictObject({ to }),
    dataFlow: { reads: [], sends: ["outside"], destinations: ["to"], ...dataFlow } as DataFlow,
  });
  const address = z.string().max(100);
  expect(
    await notes(
      sending("list", z.array(address)),
      sending("optional", address.optional()),
      sending("blank", address),
      sending("one", z.array(address).min(1)),
      sending("mail", z.email()),
      sending("said", z.array(address), { nobody: "whenEmpty" }),
      sending("inside", z.array(address), { sends: [] }),
    ),
  ).toEqual([
    "dataFlow: calls of list, optional, blank may leave all destinations out, and then count as sending outside; declare nobody: whenEmpty where that is nobody",
  ]);
});

test("a tool that takes free text to look something up sends it to whoever has the system", () => {
  const flow = (name: string, more: object, systems = {}) => {
    const made = { ...tool(name), category: "read", classification: "read", ...more } as never;
    const { sendsOutside, looksUp } = toolFlow(
      made,
      flowContextOf({ commands: { unconfinedBash: false } as never, systems }, MODULES.targetKinds),
    );
    return [sendsOutside, looksUp];
  };
  expect(flow("search", {})).toEqual([false, true]);
  expect(flow("search", {}, { comments: { own: true } })).toEqual([false, false]);
  expect(flow("search", {}, { comments: { own: false } })).toEqual([false, true]);
  expect(flow("search", { input: z.strictObject({ id: z.int() }) })).toEqual([false, false]);
  expect(flow("open", { input: z.strictObject({ url: z.url() }) })).toEqual([true, false]);
  expect(flow("search", { dataFlow: { sends: [] } })).toEqual([false, false]);
  expect(flow("run", { target: { system: "shell", cli: { command: "git" } } })).toEqual([false, false]);
});

test("tools whose answers others may have written are named while data flow is off", async () => {
  const many = Array.from({ length: 7 }, (_, index) => tool(`post_${index}`));
  expect(await notes(...many)).toEqual([
    "dataFlow: is off, and others may have written what post_0, post_1, post_2, post_3, post_4 and 2 more read: docs/data-flow.md",
  ]);
});

test("a shell that may run unconfined can use the network, and other commands only where they declare it", () => {
  const command = (cli: object) => ({ ...tool("run"), target: { system: "shell", cli } }) as never;
  const flow = (cli: object, unconfinedBash: boolean) => {
    const { reads, sendsOutside } = toolFlow(
      command(cli),
      flowContextOf({ commands: { unconfinedBash } as never, systems: {} }, MODULES.targetKinds),
    );
    return [reads, sendsOutside];
  };
  expect(flow({ shell: {} }, true)).toEqual([["untrusted"], true]);
  expect(flow({ shell: {} }, false)).toEqual([[], false]);
  expect(flow({ command: "git" }, true)).toEqual([[], false]);
});
