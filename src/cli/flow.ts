import { z } from "zod";
import { printable, printableCell } from "../core/printable.ts";
import { printListing } from "./approvals/view.ts";
import { type ClientOptions, connectAndRequest, unknownAnswer } from "./client.ts";
import { print, reportChange } from "./output.ts";

interface FollowedCaller {
  readonly issuer: string;
  readonly subject: string;
}

const listing = z.object({
  labels: z.array(
    z.object({
      label: z.string(),
      session: z.string().optional(),
      since: z.string(),
      until: z.string(),
      tool: z.string().optional(),
      traceId: z.string().optional(),
      stored: z.object({ tool: z.string(), traceId: z.string() }).optional(),
    }),
  ),
});

const cleared = z.object({ cleared: z.array(z.string()) });

/** `stc flow show`: lists the labels that a caller carries. */
export async function showFlow({ issuer, subject }: FollowedCaller, options: ClientOptions): Promise<void> {
  const path = `/data-flow?${new URLSearchParams({ issuer, subject })}`;
  const { body } = await connectAndRequest(options, { method: "GET", path });
  if (options.json === true) return print.json(body ?? {});
  const read = listing.safeParse(body);
  if (!read.success) unknownAnswer();
  const rows = read.data.labels.map(({ label, session, since, until, tool, traceId, stored }) => {
    const writing = stored === undefined ? "-" : `${stored.tool} ${stored.traceId}`;
    return [label, since, until, tool ?? "-", traceId ?? "-", writing, session ?? "-"].map(printableCell);
  });
  printListing([["LABEL", "SINCE", "UNTIL", "TOOL", "CALL", "STORED BY", "SESSION"], ...rows]);
}

/** `stc flow clear`: makes the service forget what a caller has read. */
export async function clearFlow(
  { issuer, subject }: FollowedCaller,
  options: ClientOptions & { readonly reason: string },
): Promise<void> {
  const request = JSON.stringify({ issuer, subject, reason: options.reason });
  const { body } = await connectAndRequest(options, { method: "POST", path: "/data-flow/clear", body: request });
  const read = cleared.safeParse(body);
  if (!read.success) unknownAnswer();
  const labels = read.data.cleared.join(", ") || "nothing was known";
  reportChange(() => {
    if (options.json === true) print.json(body ?? {});
    else print.line(`cleared: ${printable(subject)} of ${printable(issuer)} (${printable(labels)})`);
  });
}
