import { DENIED, HIGH, type ShellRule } from "../../src/shell-rules/shell-rules.ts";

/** Shell rules of a build: the deployment program of one company. */
export const shellRules: readonly ShellRule[] = [
  {
    ...HIGH,
    id: "ships-to-customers",
    note: "Ships to the machines of customers.",
    calls: [{ programs: "shipit", argument: /^--production$/ }],
    matches: ["shipit --production", "cd src && sudo shipit --production"],
    misses: ["shipit --dry-run", "echo shipit --production"],
  },
  {
    ...DENIED,
    id: "wipes-customers",
    note: "Wipes the machines of customers.",
    calls: [{ programs: "shipit", verbs: "wipe" }],
    matches: ["shipit wipe"],
    misses: ["shipit --production", "echo shipit wipe"],
  },
];
