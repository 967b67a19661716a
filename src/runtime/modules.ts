import { COMMANDS } from "../cli/commands.ts";

/** What a build contains: one property for each kind of module. */
export interface Modules {
  /** The files that declare the commands of `stc`. */
  readonly commands: typeof COMMANDS;
}

export const MODULES: Modules = { commands: COMMANDS };
