import { type ClientOptions, connect, EXIT, notUnderstood, sendOnce, wrongUsage } from "./client.ts";
import { print, tell } from "./output.ts";

/**
 * `stc call`: sends one call to a running service. Exit code: 0 success; 1 refused, failed or waiting for an approval; 2 service
 * not reached; 64 wrong usage.
 */
export async function call(
  tool: string,
  args: string,
  options: ClientOptions & { readonly approval?: string },
): Promise<void> {
  const body = envelope(tool, args, options.approval);
  if (body === undefined) return wrongUsage("the arguments are not a JSON object");
  const client = connect(options);
  if (client === undefined) return;
  const answer = await sendOnce(client, { method: "POST", path: "/call", body });
  if (answer === undefined) return;
  if (answer.body === undefined) return notUnderstood();
  if (answer.status !== 200 || !isSuccess(answer.body)) process.exitCode = EXIT.refused;
  tell(() => print.json(answer.body, options.json === true ? undefined : 2));
}

function envelope(tool: string, args: string, approval: string | undefined): string | undefined {
  try {
    const parsed: unknown = JSON.parse(args);
    if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) return undefined;
    const claim = approval === undefined ? "" : `,"approval":{"id":${JSON.stringify(approval)}}`;
    // Sent as typed: input that the service rejects (a duplicate key, a number that is too large) must arrive unchanged.
    return `{"tool":${JSON.stringify(tool)},"args":${args}${claim}}`;
  } catch {
    return undefined;
  }
}

function isSuccess(body: unknown): boolean {
  return typeof body === "object" && body !== null && "status" in body && body.status === "success";
}
