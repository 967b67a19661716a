import { expect, test } from "bun:test";
import { z } from "zod";
import type { DataFlow } from "../../../src/core/types.ts";
import { toolFlow } from "../../../src/data-flow/declarations.ts";
import { defineTool } from "../../../src/index.ts";
import { MODULES } from "../../../src/modules.ts";
import { dataFlowNotes, isShellConfined } from "../../../src/runtime/composition/data-flow.ts";

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
  dataFlowNotes({ commands: { unconfinedBash: false } } as never, tools as never, MODULES.targetKinds);

test("tools that declare what they read, and not what they send, are named", async () => {
  const reads: DataFlow = { reads: [] };
  expect(await notes(tool("post"), tool("answer", reads), tool("quote", { reads: [], sends: [] }))).toEqual([
    "dataFlow: sends is left out for answer: calls count as sending outside, as is usual for the kind; declare sends: [] or [outside]",
  ]);
  expect(await notes(tool("post"), tool("quote", { reads: [], sends: ["outside"] }))).toEqual([]);
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
      MODULES.targetKinds,
      isShellConfined({ commands: { unconfinedBash } as never }),
    );
    return [reads, sendsOutside];
  };
  expect(flow({ shell: {} }, true)).toEqual([["untrusted"], true]);
  expect(flow({ shell: {} }, false)).toEqual([[], false]);
  expect(flow({ command: "git" }, true)).toEqual([[], false]);
});
