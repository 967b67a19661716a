import { readGrants } from "./approvals/answers.ts";
import { ask, type ClientOptions, connect, isAbout, notUnderstood, segment } from "./client.ts";
import { printListing } from "./listing.ts";
import { print, tell } from "./output.ts";
import { printable, printableCell } from "./printable.ts";

/** `stc grants list`: lists the approvals that are still valid for a session. */
export async function listGrants(options: ClientOptions): Promise<void> {
  const client = connect(options);
  const answer = client && (await ask(client, { method: "GET", path: "/grants" }, options));
  if (answer === undefined) return;
  if (options.json === true) return print.json(answer.body ?? {});
  const listed = readGrants(answer.body);
  if (listed === undefined) return notUnderstood();
  const rows = listed.grants.map(({ id, subject, session, tool, summary, expiresAt }) =>
    [id, subject, session, tool, new Date(expiresAt).toISOString(), summary].map(printableCell),
  );
  printListing([["ID", "WHO", "SESSION", "TOOL", "UNTIL", "SUMMARY"], ...rows]);
  if (listed.truncated) print.line(`note: there are more than these ${rows.length}`);
}

/** `stc grants revoke <id>`. */
export async function revokeGrant(id: string, options: ClientOptions): Promise<void> {
  const name = segment(id);
  const client = name === undefined ? undefined : connect(options);
  const answer = client && (await ask(client, { method: "DELETE", path: `/grants/${name}` }, options));
  if (answer === undefined) return;
  if (!isAbout(answer.body, "grant", id)) return notUnderstood();
  tell(() => (options.json === true ? print.json(answer.body) : print.line(`revoked: ${printable(id)}`)));
}
