import { isTable } from "../core/json.ts";
import { printable } from "../core/printable.ts";
import { type ClientOptions, connect, problemOf, sendOnce, unknownAnswer } from "./client.ts";
import { CommandError, EXIT, print, reportChange, wrongUsage } from "./output.ts";

/** `stc call`: sends one call to a running service. */
export async function call(
  tool: string,
  args: string,
  options: ClientOptions & { readonly approval?: string; readonly dryRun?: boolean },
): Promise<void> {
  const body = envelope(tool, args, options);
  const answer = await sendOnce(connect(options), { method: "POST", path: "/call", body });
  if (answer.body === undefined) unknownAnswer();
  if (answer.status !== 200 || !isTable(answer.body) || !isGranted(answer.body)) process.exitCode = EXIT.failed;
  reportChange(() => print.json(answer.body, options.json === true ? undefined : 2));
}

/** Returns whether the call has run; of a dry run, whether it would. */
function isGranted({ status, verdict }: Readonly<Record<string, unknown>>): boolean {
  return status === "success" || (status === "dryRun" && verdict === "allow");
}

interface EnvelopeOptions {
  readonly approval?: string | undefined;
  readonly dryRun?: boolean | undefined;
}

function envelope(tool: string, args: string, { approval, dryRun }: EnvelopeOptions): string {
  if (!isJsonObject(args)) wrongUsage("the arguments are not a JSON object");
  const value = approval === "new" ? '"new"' : `{"id":${JSON.stringify(approval)}}`;
  const approvalMember = approval === undefined ? "" : `,"approval":${value}`;
  // Sent as typed: input that the service rejects (a duplicate key, a number that is too large) must arrive unchanged.
  return `{"tool":${JSON.stringify(tool)},"args":${args}${approvalMember}${dryRun === true ? ',"dryRun":true' : ""}}`;
}

function isJsonObject(text: string): boolean {
  try {
    return isTable(JSON.parse(text));
  } catch {
    return false;
  }
}

/** Returns the first line about a refused reload: in a service with tenants, others may have adopted their part. */
export function refusedReload({
  service,
  tenants,
}: {
  readonly service?: unknown;
  readonly tenants?: unknown;
}): string {
  const parts = [["the service itself", service], ...Object.entries(isTable(tenants) ? tenants : {})];
  const adopted = parts.flatMap(([name, outcome]) => (outcome === "changed" ? [printable(String(name))] : []));
  if (adopted.length === 0) return "refused; the previous configuration stays in use:";
  return `refused in part; the changed configuration is in use for ${adopted.join(", ")} only:`;
}

/** Reading the whole configuration again takes as long as a start. */
const TIMEOUT_MS = 180_000;

/** `stc reload`: makes a running service apply changed configuration. Prints every problem when the service refuses. */
export async function reload(options: ClientOptions): Promise<void> {
  const answer = await sendOnce(connect(options), { method: "POST", path: "/reload", timeoutMs: TIMEOUT_MS });
  const { status, body } = answer;
  if (status !== 200) process.exitCode = EXIT.failed;
  if (options.json === true) return reportChange(() => print.json(body ?? {}));
  const { problems, generation, hash, service, tenants }: Readonly<Record<string, unknown>> = isTable(body) ? body : {};
  if (status === 422 && Array.isArray(problems)) {
    const lines = problems.map((problem) => `  ${printable(String(problem))}`);
    throw new CommandError(EXIT.failed, refusedReload({ service, tenants }), ...lines);
  }
  if (status !== 200) throw new CommandError(EXIT.failed, problemOf(answer));
  if (typeof generation !== "number" || typeof hash !== "string") return unknownAnswer();
  reportChange(() => print.line(`reloaded: configuration snapshot ${generation}, ${printable(hash)}`));
}
