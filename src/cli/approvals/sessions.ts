import { type ClientOptions, connectAndRequest, isAbout, reportUnknownAnswer, requestById } from "../client.ts";
import { print, reportChange, wrongUsage } from "../output.ts";
import { printable, printableCell } from "../printable.ts";
import { readGrants, readSessions } from "./answers.ts";
import { printListing } from "./view.ts";

/** `stc grants list`: lists the approvals that are still valid for a session. */
export async function listGrants(options: ClientOptions): Promise<void> {
  const answer = await connectAndRequest(options, { method: "GET", path: "/grants" });
  if (answer === undefined) return;
  if (options.json === true) return print.json(answer.body ?? {});
  const listed = readGrants(answer.body);
  if (listed === undefined) return reportUnknownAnswer();
  const rows = listed.grants.map(({ id, subject, session, tool, summary, expiresAt }) =>
    [id, subject, session, tool, new Date(expiresAt).toISOString(), summary].map(printableCell),
  );
  printListing([["ID", "WHO", "SESSION", "TOOL", "UNTIL", "SUMMARY"], ...rows]);
  if (listed.truncated) print.line(`note: there are more; these are the first ${rows.length}`);
}

export async function revokeGrant(id: string, options: ClientOptions): Promise<void> {
  const answer = await requestById(id, options, (name) => ({ method: "DELETE", path: `/grants/${name}` }));
  if (answer === undefined) return;
  if (!isAbout(answer.body, "grant", id)) return reportUnknownAnswer();
  reportChange(() => (options.json === true ? print.json(answer.body) : print.line(`revoked: ${printable(id)}`)));
}

/** `stc mode list`: lists the sessions that the service knows, with the mode of each. */
export async function listModes(options: ClientOptions): Promise<void> {
  const answer = await connectAndRequest(options, { method: "GET", path: "/sessions" });
  if (answer === undefined) return;
  if (options.json === true) return print.json(answer.body ?? {});
  const listed = readSessions(answer.body);
  if (listed === undefined) return reportUnknownAnswer();
  const rows = listed.sessions.map(({ id, issuer, subject, mode, modeUntil }) =>
    [id, mode, modeUntil == null ? "-" : new Date(modeUntil).toISOString(), subject, issuer].map(printableCell),
  );
  printListing([["SESSION", "MODE", "UNTIL", "WHO", "ISSUER"], ...rows]);
  if (listed.truncated) print.line(`note: there are more; these are the first ${rows.length}`);
}

interface ModeOptions extends ClientOptions {
  /** Seconds. */
  readonly for: number;
  readonly subject?: string;
  readonly issuer?: string;
}

const UNSEEN =
  "note: for a session that has made no call yet, give --subject and --issuer of the token that will name it";

/** `stc mode set <session> <mode> --for 30m`. The session's owner is required when the service has not seen the session yet. */
export async function setMode(session: string, mode: string, options: ModeOptions): Promise<void> {
  const { subject, issuer } = options;
  if ((subject === undefined) !== (issuer === undefined)) return wrongUsage("--subject and --issuer go together");
  if (subject === "" || issuer === "") return wrongUsage("--subject and --issuer must not be empty");
  const body = JSON.stringify({ mode, expiresInSeconds: options.for, subject, issuer });
  const hint = subject === undefined ? { ifNotFound: UNSEEN } : {};
  const answer = await requestById(session, options, (name) => {
    const path = `/sessions/${name}/mode`;
    return { method: "PUT", path, body, ...hint };
  });
  if (answer === undefined) return;
  if (!isAbout(answer.body, "session", session)) return reportUnknownAnswer();
  const set = `${printable(mode)} for ${options.for} s: ${printable(session)}`;
  reportChange(() => (options.json === true ? print.json(answer.body) : print.line(set)));
}

/** `stc mode end <session>`: ends the session together with its mode and its grants. */
export async function endSession(session: string, options: ClientOptions): Promise<void> {
  const answer = await requestById(session, options, (name) => ({ method: "DELETE", path: `/sessions/${name}` }));
  if (answer === undefined) return;
  if (!isAbout(answer.body, "session", session)) return reportUnknownAnswer();
  reportChange(() => (options.json === true ? print.json(answer.body) : print.line(`ended: ${printable(session)}`)));
}
