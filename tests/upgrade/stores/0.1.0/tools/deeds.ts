import { appendFileSync } from "node:fs";
import { defineTool } from "safe-tool-call";
import { z } from "zod";

const common = {
  permissions: { required: ["deeds:do"] },
  input: z.strictObject({ what: z.string().max(1_000) }),
  output: z.strictObject({ did: z.string(), by: z.int() }),
  outputPolicy: { did: "allow", by: "allow" },
  examples: { accepts: [{ what: "a" }], rejects: [{ what: 1 }] },
} as const;

/** Answers with its process, so that a stored answer differs from that of another run. */
const does = ({ what }: { readonly what: string }) => ({ did: what, by: process.pid });
const freely = { needsApproval: () => false };

export const look = defineTool({
  ...common,
  name: "look",
  description: "Looks",
  classification: "read",
  handler: does,
});

export const change = defineTool({
  ...common,
  name: "change",
  description: "Changes something; asks a person",
  classification: "write",
  category: "write",
  handler: does,
});

export const pay = defineTool({
  ...common,
  name: "pay",
  description: "Pays; asks two people",
  classification: "write",
  category: "write",
  handler: does,
});

export const changeFreely = defineTool({
  ...common,
  name: "change_freely",
  description: "Changes something; asks nobody",
  classification: "write",
  category: "write",
  approval: freely,
  handler: does,
});

export const hang = defineTool({
  ...common,
  name: "hang",
  description: "Writes that it has begun, and never ends",
  classification: "write",
  category: "write",
  approval: freely,
  handler: ({ what }) => {
    appendFileSync(what, "begun\n");
    return new Promise<{ did: string; by: number }>(() => {});
  },
});
