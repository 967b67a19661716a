import { argument, CLIENT, command, group, required, text } from "./command.ts";

const CALLER = { issuer: argument(text("issuer")), subject: argument(text("subject")) };
const flow = () => import("./flow.ts");

export const commands = [
  group("flow", "What callers have read"),
  command({
    name: "flow show",
    summary: "Show what a caller has read that rules about data flow remember",
    arguments: CALLER,
    uses: CLIENT,
    run: async (caller, options) => (await flow()).showFlow(caller, options),
  }),
  command({
    name: "flow clear",
    summary: "Forget what a caller has read, when its work has really ended",
    arguments: CALLER,
    uses: CLIENT,
    options: { reason: required(text("text"), "why, for the audit") },
    run: async (caller, options) => (await flow()).clearFlow(caller, options),
  }),
];
