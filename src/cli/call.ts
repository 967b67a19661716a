import { isTable } from "../core/json.ts";
import { type ClientOptions, connect, problemOf, reportUnknownAnswer, sendOnce } from "./client.ts";
import { EXIT, print, reportChange, wrongUsage } from "./output.ts";
import { printable } from "./printable.ts";

/** `stc call`: sends one call to a running service. */
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
  if (answer.body === undefined) return reportUnknownAnswer();
  if (answer.status !== 200 || !isTable(answer.body) || answer.body["status"] !== "success")
    process.exitCode = EXIT.failed;
  reportChange(() => print.json(answer.body, options.json === true ? undefined : 2));
}

function envelope(tool: string, args: string, approval: string | undefined): string | undefined {
  try {
    if (!isTable(JSON.parse(args))) return undefined;
    const claim = approval === undefined ? "" : `,"approval":{"id":${JSON.stringify(approval)}}`;
    // Sent as typed: input that the service rejects (a duplicate key, a number that is too large) must arrive unchanged.
    return `{"tool":${JSON.stringify(tool)},"args":${args}${claim}}`;
  } catch {
    return undefined;
  }
}

/** Reading the whole configuration again takes as long as a start. */
const TIMEOUT_MS = 180_000;

/** `stc reload`: makes a running service apply changed configuration. Prints every problem when the service refuses. */
export async function reload(options: ClientOptions): Promise<void> {
  const client = connect(options);
  if (client === undefined) return;
  const answer = await sendOnce(client, { method: "POST", path: "/reload", timeoutMs: TIMEOUT_MS });
  if (answer === undefined) return;
  const { status, body } = answer;
  if (status !== 200) process.exitCode = EXIT.failed;
  if (options.json === true) return reportChange(() => print.json(body ?? {}));
  const { problems, generation, hash }: Readonly<Record<string, unknown>> = isTable(body) ? body : {};
  if (status === 422 && Array.isArray(problems)) {
    print.error("refused; the configuration in use stays in use:");
    for (const problem of problems) print.error(`  ${printable(String(problem))}`);
    return;
  }
  if (status !== 200) return print.error(problemOf(answer));
  if (typeof generation !== "number" || typeof hash !== "string") return reportUnknownAnswer();
  reportChange(() => print.line(`reloaded: configuration snapshot ${generation}, ${printable(hash)}`));
}
