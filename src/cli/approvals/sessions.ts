import { grantListing, sessionListing } from "../../core/api/approvals.ts";
import { isTable } from "../../core/json.ts";
import { printable, printableCell } from "../../core/printable.ts";
import { type ClientOptions, connectAndRequest, type ServiceAnswer, segment, unknownAnswer } from "../client.ts";
import { print, reportChange, wrongUsage } from "../output.ts";
import { printListing } from "./view.ts";

/** `stc grants list`: lists the approvals that still cover further calls, with the runs that bounded ones have used. */
export async function listGrants(options: ClientOptions): Promise<void> {
  await list(options, "/grants", (body) => {
    const { grants, truncated } = grantListing.safeParse(body).data ?? unknownAnswer();
    const rows = grants.map(({ id, subject, session = "-", tool, summary, expiresAt, bounded }) => {
      const runs = bounded === undefined ? "-" : `${bounded.runsUsed} of ${bounded.runs}`;
      return [id, subject, session, tool, new Date(expiresAt).toISOString(), runs, summary].map(printableCell);
    });
    return { truncated, rows: [["ID", "SUBJECT", "SESSION", "TOOL", "UNTIL", "RUNS", "SUMMARY"], ...rows] };
  });
}

/** `stc mode list`: lists the sessions that the service knows, with the mode of each. */
export async function listModes(options: ClientOptions): Promise<void> {
  await list(options, "/sessions", (body) => {
    const { sessions, truncated } = sessionListing.safeParse(body).data ?? unknownAnswer();
    const rows = sessions.map(({ id, issuer, subject, mode, modeUntil }) =>
      [id, mode, modeUntil == null ? "-" : new Date(modeUntil).toISOString(), subject, issuer].map(printableCell),
    );
    return { truncated, rows: [["SESSION", "MODE", "UNTIL", "SUBJECT", "ISSUER"], ...rows] };
  });
}

interface Listing {
  readonly rows: readonly (readonly string[])[];
  readonly truncated: boolean;
}

async function list(options: ClientOptions, path: string, read: (body: unknown) => Listing): Promise<void> {
  const { body } = await connectAndRequest(options, { method: "GET", path });
  if (options.json === true) return print.json(body ?? {});
  const { rows, truncated } = read(body);
  printListing(rows);
  if (truncated) print.line(`note: there are more; these are the first ${rows.length - 1}`);
}

export async function revokeGrant(id: string, options: ClientOptions): Promise<void> {
  const answer = await connectAndRequest(options, { method: "DELETE", path: `/grants/${segment(id)}` });
  report(answer, options, { kind: "grant", id, done: `revoked: ${printable(id)}` });
}

/** Whose session it is: `sid`s of two callers may be equal. */
interface OwnerOptions extends ClientOptions {
  readonly sub?: string;
  readonly iss?: string;
  /** Former name of `sub`. */
  readonly subject?: string;
  /** Former name of `iss`. */
  readonly issuer?: string;
}

interface ModeOptions extends OwnerOptions {
  /** Duration in seconds. */
  readonly for: number;
}

/** Returns the session's owner, if the options name one. */
function ownerIn(options: OwnerOptions): { readonly subject: string; readonly issuer: string } | undefined {
  const { subject, issuer, sub = subject, iss = issuer } = options;
  if (sub === undefined && iss === undefined) return undefined;
  if (sub === undefined || iss === undefined) return wrongUsage("--sub and --iss go together");
  return sub === "" || iss === "" ? wrongUsage("--sub and --iss must not be empty") : { subject: sub, issuer: iss };
}

const UNKNOWN_SESSION =
  "note: for a session that has made no call yet, give --sub and --iss of the token that will name it";

/** `stc mode set <session> <mode> --for 30m`. A session that the service does not know yet needs its owner. */
export async function setMode(session: string, mode: string, options: ModeOptions): Promise<void> {
  const owner = ownerIn(options);
  const body = JSON.stringify({ mode, expiresInSeconds: options.for, ...owner });
  const hint = owner === undefined ? { ifNotFound: UNKNOWN_SESSION } : {};
  const path = `/sessions/${segment(session)}/mode`;
  const answer = await connectAndRequest(options, { method: "PUT", path, body, ...hint });
  const done = `${printable(mode)} for ${options.for} s: ${printable(session)}`;
  report(answer, options, { kind: "session", id: session, done });
}

/** `stc mode end <session>`: ends the session together with its mode and its grants. */
export async function endSession(session: string, options: OwnerOptions): Promise<void> {
  const owner = ownerIn(options);
  const path = `/sessions/${segment(session)}${owner === undefined ? "" : `?${new URLSearchParams(owner)}`}`;
  const answer = await connectAndRequest(options, { method: "DELETE", path });
  report(answer, options, { kind: "session", id: session, done: `ended: ${printable(session)}` });
}

interface Change {
  readonly kind: "grant" | "session";
  readonly id: string;
  /** Message for people. With `--json`, the answer is printed instead. */
  readonly done: string;
}

/** Reports a change. An answer about another resource counts as unknown. */
function report({ body }: ServiceAnswer, { json }: ClientOptions, { kind, id, done }: Change): void {
  const resource = isTable(body) ? body[kind] : undefined;
  if (!isTable(resource) || resource["id"] !== id) unknownAnswer();
  reportChange(() => (json === true ? print.json(body) : print.line(done)));
}
