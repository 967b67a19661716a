import { z } from "zod";
import { quotaListing } from "../core/api/quotas.ts";
import { printableCell } from "../core/printable.ts";
import { type ClientOptions, connectAndRequest, issuerAndSubject, unknownAnswer } from "./client.ts";
import { print, reportChange, table, wrongUsage } from "./output.ts";

/** `stc quotas`: shows who has used how much, and sets uses to zero. */

interface UserOptions extends ClientOptions {
  /** Issuer and subject. */
  readonly caller?: readonly string[];
  readonly tool?: string;
  readonly system?: string;
}

interface ListOptions extends UserOptions {
  readonly quota?: string;
  readonly limit: number;
}

const PAGE_MAX = 500;

export async function listQuotas(options: ListOptions): Promise<void> {
  if (options.limit < 1 || options.limit > PAGE_MAX) return wrongUsage(`--limit must be from 1 to ${PAGE_MAX}`);
  const query = new URLSearchParams({ ...userOf(options), limit: String(options.limit) });
  if (options.quota !== undefined) query.set("quota", options.quota);
  const { body } = await connectAndRequest(options, { method: "GET", path: `/quotas?${query}` });
  if (options.json === true) return print.json(body ?? {});
  const { success, data } = quotaListing.safeParse(body);
  if (!success) return unknownAnswer();
  const rules = data.quotas.map(({ name, per, calls, bytes, cost, window }) => {
    const amounts = { calls, bytes, cost };
    const amount = Object.entries(amounts).flatMap(([unit, value]) =>
      value === undefined ? [] : [`${value} ${unit}`],
    );
    return [name, amount.join(), window, per.length === 0 ? "everybody" : per.join(", ")].map(printableCell);
  });
  print.line(table([["QUOTA", "LIMIT", "WINDOW", "PER"], ...rules]));
  if (data.use.length === 0) return;
  const uses = data.use.map(({ quota: name, used, limit, unit, subject, issuer, tool, system, endsAt }) => {
    const whose = [subject, issuer, tool, system].map((value) => value ?? "-");
    const until = new Date(endsAt).toISOString();
    return [name, `${used} of ${limit ?? "-"} ${unit}`, ...whose, until].map(printableCell);
  });
  print.line("");
  print.line(table([["QUOTA", "USED", "SUBJECT", "ISSUER", "TOOL", "SYSTEM", "UNTIL"], ...uses]));
  if (data.cursor !== undefined) print.line(`note: there are more; these are the first ${uses.length}`);
}

export async function resetQuota(name: string, options: UserOptions): Promise<void> {
  const body = JSON.stringify({ quota: name, ...userOf(options) });
  const answer = await connectAndRequest(options, { method: "POST", path: "/quotas/reset", body });
  const { success, data } = z.object({ quota: z.literal(name), reset: z.int() }).safeParse(answer.body);
  if (!success) return unknownAnswer();
  const done = `reset: ${printableCell(name)} (${data.reset} ${data.reset === 1 ? "use" : "uses"})`;
  reportChange(() => (options.json === true ? print.json(answer.body) : print.line(done)));
}

function userOf({ caller, tool, system }: UserOptions): Readonly<Record<string, string>> {
  const given = Object.entries({ ...(caller && issuerAndSubject(caller)), tool, system });
  return Object.fromEntries(
    given.flatMap(([key, value]) => {
      if (value === "") return wrongUsage("the values of --caller, --tool and --system must not be empty");
      return value === undefined ? [] : [[key, value]];
    }),
  );
}
