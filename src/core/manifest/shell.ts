import type { Fault } from "../errors.ts";
import { isTable } from "../json.ts";
import { isSynchronous, isText, type Unread, unknownKeys, unless } from "./checks.ts";

/** The one shell that a tool may run. */
const SHELL = "bash";

/**
 * Whether a manifest may name a shell: it says so itself (`target.cli.shell`), and every call of it asks a person. Not a matter
 * of the tool's name, and the configuration must allow the shell besides.
 */
export function isDeclaredShell(cli: Unread, { approval, category, classification }: Unread): boolean {
  return (
    cli["command"] === SHELL &&
    isTable(cli["shell"]) &&
    isTable(approval) &&
    approval["required"] === true &&
    category === "command" &&
    (classification === "write" || classification === "destructive")
  );
}

/** What is wrong with a manifest's `target.cli.shell`. */
export function shellFaults(cli: Unread, manifest: Unread): readonly Fault[] {
  const { shell, lookups } = cli;
  if (shell === undefined) return [];
  const field = "target.cli.shell";
  if (!isTable(shell)) return [{ field, message: "must be { workspace, timeoutMs? }" }];
  const { workspace, timeoutMs } = shell;
  return [
    ...unknownKeys(field, shell, ["workspace", "timeoutMs"]),
    ...unless(
      isDeclaredShell(cli, manifest),
      field,
      `is for ${SHELL} alone, category command, not read, and approval.required: true`,
    ),
    ...unless(isText(workspace) && workspace.startsWith("/"), `${field}.workspace`, "must be an absolute directory"),
    ...unless(
      timeoutMs === undefined || isSynchronous(timeoutMs),
      `${field}.timeoutMs`,
      "must be a function of the input, and not async",
    ),
    ...unless(
      lookups === undefined,
      "target.cli.lookups",
      "are not for a shell: they would run before anybody was asked",
    ),
  ];
}
