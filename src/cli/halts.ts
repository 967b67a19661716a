import { type HaltListed, haltLifted, haltListing, haltSet } from "../core/api/halts.ts";
import { printable, printableCell } from "../core/printable.ts";
import { printListing } from "./approvals/view.ts";
import { type ClientOptions, connectAndRequest, issuerAndSubject, segment, unknownAnswer } from "./client.ts";
import { CommandError, EXIT, print, reportChange, wrongUsage } from "./output.ts";

interface HaltOptions extends ClientOptions {
  readonly all?: true | boolean;
  readonly tool?: string;
  readonly system?: string;
  readonly caller?: readonly string[];
  readonly session?: string;
  readonly tenant?: string;
  readonly reason: string;
  readonly until?: string;
  /** In seconds. */
  readonly for?: number;
  readonly cancelRunning?: boolean;
}

/** `stc halt`: stops calls at once, on every replica within a second. */
export async function halt(options: HaltOptions): Promise<void> {
  const { reason, until, for: forSeconds, cancelRunning, tenant } = options;
  const body = JSON.stringify({ ...targetOf(options), tenant, reason, until, forSeconds, cancelRunning });
  const answer = await connectAndRequest(options, { method: "POST", path: "/halts", body });
  const read = haltSet.safeParse(answer.body);
  if (!read.success) unknownAnswer();
  reportChange(() => {
    if (options.json === true) return print.json(answer.body ?? {});
    const { halt: made, notes } = read.data;
    print.line(`halted: ${what(made)}${made.until === undefined ? "" : `, until ${printable(made.until)}`}`);
    print.line(`id: ${printable(made.id)}`);
    for (const note of notes) print.line(`note: ${printable(note)}`);
  });
}

/** Without another target, all calls of the tenant are halted. */
function targetOf({ all, tool, system, caller, session, tenant }: HaltOptions) {
  const isOfTenant = tenant !== undefined && [tool, system, caller, session].every((each) => each === undefined);
  const named = [
    ...(all === true || isOfTenant ? [{ kind: "all" }] : []),
    ...(tool === undefined ? [] : [{ kind: "tool", tool }]),
    ...(system === undefined ? [] : [{ kind: "system", system }]),
    ...(caller === undefined ? [] : [{ kind: "caller", ...issuerAndSubject(caller) }]),
    ...(session === undefined ? [] : [{ kind: "session", session }]),
  ];
  const [target, another] = named;
  if (target === undefined || another !== undefined)
    return wrongUsage("name exactly one of --all, --tool, --system, --caller and --session, or a --tenant");
  return target;
}

/** `stc resume`: lifts halts, one after the other. */
export async function resume(ids: readonly string[], options: ClientOptions): Promise<void> {
  const lifted: unknown[] = [];
  for (const id of ids) {
    const { body } = await connectAndRequest(options, {
      method: "DELETE",
      path: `/halts/${segment(id)}`,
      ifNotFound: "note: `stc halts` lists the halts in force",
    });
    if (haltLifted.safeParse(body).data?.halt.id !== id) unknownAnswer();
    lifted.push(body);
    if (options.json !== true) reportChange(() => print.line(`lifted: ${printable(id)}`));
  }
  if (options.json === true) reportChange(() => print.json(ids.length === 1 ? (lifted[0] ?? {}) : lifted));
}

/** `stc halts`: lists the halts in force. */
export async function listHalts(options: ClientOptions): Promise<void> {
  const { body } = await connectAndRequest(options, { method: "GET", path: "/halts" });
  if (options.json === true) return print.json(body ?? {});
  const read = haltListing.safeParse(body);
  if (!read.success) unknownAnswer();
  const { halts, state } = read.data;
  const rows = halts.map((each) =>
    [
      ...[each.id, what(each), each.until ?? "-", each.setAt],
      ...[each.setBy?.subject ?? "the service's operators", each.reason ?? "-"],
    ].map(printableCell),
  );
  printListing([["ID", "HALTED", "UNTIL", "SET AT", "BY", "REASON"], ...rows]);
  if (state.scope === "process") print.line("note: halts apply to this process only: it has no store for approvals");
  if (state.status === "ok") return;
  throw new CommandError(EXIT.failed, `the halts are ${printable(state.status)}: the service cannot read its database`);
}

function what({ kind, tool, system, issuer, subject, session, tenant, cancelRunning }: HaltListed): string {
  const named = {
    tool: tool ?? "",
    system: system ?? "",
    session: session ?? "",
    caller: subject === undefined ? "" : `${subject} of ${issuer ?? ""}`,
  };
  const name = named[kind as keyof typeof named] ?? "";
  const called = kind === "all" ? "all calls" : `${kind} ${name === "" ? "(not shown)" : name}`;
  const target = tenant === undefined ? called : `${called} of tenant ${tenant}`;
  return printable(cancelRunning ? `${target}, running ones too` : target);
}
