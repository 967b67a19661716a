import { z } from "zod";
import { stand, standTool } from "../../targets/command/stand.ts";

// Run with secrets in its own environment: prints what a child of the handler sees.
const binding = stand().handler.bind(
  standTool({ command: "environment", argsBuilder: () => [] }, z.object({ text: z.string() })),
);
const context = { signal: new AbortController().signal };
const plan = await binding.plan({}, context);
const caller = { issuer: "i", subject: "s", permissions: [], actors: [], expiresAt: 0 };
process.stdout.write(JSON.stringify(await binding.run(plan, { ...context, deadline: 10_000, traceId: "t", caller })));
process.exit(0);
