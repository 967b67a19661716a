import { type ClientOptions, connect, EXIT, notUnderstood, problemOf, sendOnce } from "./client.ts";
import { print, tell } from "./output.ts";
import { printable } from "./printable.ts";

/** Reading the whole configuration again takes as long as a start. */
const TIMEOUT_MS = 180_000;

/**
 * `stc reload`: makes a running service apply changed configuration. Exit code 1, with every problem, when the service refuses.
 */
export async function reload(options: ClientOptions): Promise<void> {
  const client = connect(options);
  if (client === undefined) return;
  const answer = await sendOnce(client, { method: "POST", path: "/reload", timeoutMs: TIMEOUT_MS });
  if (answer === undefined) return;
  const { status, body } = answer;
  if (status !== 200) process.exitCode = EXIT.refused;
  if (options.json === true) return tell(() => print.json(body ?? {}));
  const told: Readonly<Record<string, unknown>> = typeof body === "object" && body !== null ? { ...body } : {};
  const { problems, generation, hash } = told;
  if (status === 422 && Array.isArray(problems)) {
    print.error("refused; what was in use stays in use:");
    for (const problem of problems) print.error(`  ${printable(String(problem))}`);
    return;
  }
  if (status !== 200) return print.error(problemOf(answer));
  if (typeof generation !== "number" || typeof hash !== "string") return notUnderstood();
  tell(() => print.line(`reloaded: generation ${generation}, ${printable(hash)}`));
}
