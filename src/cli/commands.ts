import type { CommandFile } from "./command.ts";

/**
 * The files that declare the commands of `stc`, in the order of its help. Every start of `stc` loads all of them: a file imports
 * the code of its commands only when it runs them.
 */
export const COMMANDS: readonly CommandFile[] = [
  () => import("./top-commands.ts"),
  () => import("./halt-commands.ts"),
  () => import("./approvals/commands.ts"),
  () => import("./flow-commands.ts"),
  () => import("./fleet-commands.ts"),
  () => import("./audit/commands.ts"),
  () => import("./bundle-commands.ts"),
];
