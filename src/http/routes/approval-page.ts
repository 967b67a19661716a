import { createHash } from "node:crypto";
import { z } from "zod";
import { idParams } from "../approval-json.ts";
import { type Endpoint, endpoint } from "../endpoint.ts";

const STYLE =
  "body{font:1rem/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem}" +
  "code,pre{font-family:ui-monospace,monospace}pre{border:1px solid;padding:.75rem;overflow-x:auto}";

/** Allows only the text and its style: no scripts, forms, frames or fetched resources, and no referrer. */
const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "cache-control": "no-store",
  "content-security-policy": [
    ...["default-src 'none'", `style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`],
    ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "sandbox"],
  ].join("; "),
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "x-robots-tag": "noindex",
} as const;

/**
 * The target of links in notifications. The page says how to decide and decides nothing. The store is not queried, so the page is
 * the same for every id, and a mail scanner that follows the link changes and learns nothing.
 */
const page = endpoint({
  method: "GET",
  path: "/approvals/:id/page",
  summary: "A page that says how to decide; it decides nothing.",
  audience: "anybody",
  onlyWith: "`approvals`",
  params: z.object({ id: z.string() }),
  responses: { 200: { type: "text/html" }, 404: { description: "No such page.", type: "text/html" } },
  audited: "no",
  handle({ params: { id } }) {
    const { success } = idParams.safeParse({ id });
    return { status: success ? 200 : 404, headers: HEADERS, body: success ? pageOf(id) : NO_PAGE };
  },
});

const NO_PAGE = htmlOf("No such approval", "<p>This is not the address of an approval.</p>");

/** Renders the page. The id was checked: it holds only hexadecimal digits and dashes. */
function pageOf(id: string): string {
  return htmlOf(
    "A call waits for a decision",
    `<p>Approval <code>${id}</code>. This page decides nothing. Approvers decide with their own token:</p>
<pre>stc approvals show ${id}
stc approvals approve ${id}
stc approvals deny ${id} --reason "…"</pre>
<p>Read what would run before you approve it: <code>show</code> prints it. Only holders of a token can see the state, the
requester and the content of the approval request.</p>`,
  );
}

function htmlOf(title: string, content: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title>
<style>${STYLE}</style></head>
<body><h1>${title}</h1>
${content}
</body></html>
`;
}

export const endpoints: readonly Endpoint[] = [page];
