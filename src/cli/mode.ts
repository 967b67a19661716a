import { readSessions } from "./approvals/answers.ts";
import { ask, type ClientOptions, connect, isAbout, notUnderstood, segment, wrongUsage } from "./client.ts";
import { printListing } from "./listing.ts";
import { print, tell } from "./output.ts";
import { printable, printableCell } from "./printable.ts";

/** `stc mode list`: lists the sessions that the service knows, with the mode of each. */
export async function listModes(options: ClientOptions): Promise<void> {
  const client = connect(options);
  const answer = client && (await ask(client, { method: "GET", path: "/sessions" }, options));
  if (answer === undefined) return;
  if (options.json === true) return print.json(answer.body ?? {});
  const listed = readSessions(answer.body);
  if (listed === undefined) return notUnderstood();
  const rows = listed.sessions.map(({ id, issuer, subject, mode, modeUntil }) =>
    [id, mode, modeUntil == null ? "-" : new Date(modeUntil).toISOString(), subject, issuer].map(printableCell),
  );
  printListing([["SESSION", "MODE", "UNTIL", "WHO", "ISSUER"], ...rows]);
  if (listed.truncated) print.line(`note: there are more than these ${rows.length}`);
}

export interface ModeOptions extends ClientOptions {
  /** Seconds. */
  readonly for: number;
  readonly subject?: string;
  readonly issuer?: string;
}

const UNSEEN = "note: a session that has made no call yet is set with --subject and --issuer: whose token will name it";

/** `stc mode set <session> <mode> --for 30m`. The session's owner is required when the service has not seen the session yet. */
export async function setMode(session: string, mode: string, options: ModeOptions): Promise<void> {
  const { subject, issuer } = options;
  if ((subject === undefined) !== (issuer === undefined)) return wrongUsage("--subject and --issuer go together");
  if (subject === "" || issuer === "") return wrongUsage("--subject and --issuer must not be empty");
  const name = segment(session);
  const client = name === undefined ? undefined : connect(options);
  if (client === undefined) return;
  const body = JSON.stringify({ mode, expiresInSeconds: options.for, subject, issuer });
  const hint = subject === undefined ? { ifNotFound: UNSEEN } : {};
  const answer = await ask(client, { method: "PUT", path: `/sessions/${name}/mode`, body, ...hint }, options);
  if (answer === undefined) return;
  if (!isAbout(answer.body, "session", session)) return notUnderstood();
  const set = `${printable(mode)} for ${options.for} s: ${printable(session)}`;
  tell(() => (options.json === true ? print.json(answer.body) : print.line(set)));
}

/** `stc mode end <session>`: ends the session together with its mode and its grants. */
export async function endSession(session: string, options: ClientOptions): Promise<void> {
  const name = segment(session);
  const client = name === undefined ? undefined : connect(options);
  const answer = client && (await ask(client, { method: "DELETE", path: `/sessions/${name}` }, options));
  if (answer === undefined) return;
  if (!isAbout(answer.body, "session", session)) return notUnderstood();
  tell(() => (options.json === true ? print.json(answer.body) : print.line(`ended: ${printable(session)}`)));
}
