import { createHash } from "node:crypto";
import type { FastifyInstance } from "fastify";
import { idOf } from "../path-ids.ts";
import { checkPeerHeaders, type PeerLimits } from "../request-guard.ts";

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
 * Declares `GET /approvals/:id/page`, the target of links in notifications. The page says how to decide and decides nothing.
 * The store is not queried, so the page is the same for every id, and a mail scanner that follows the link changes and learns
 * nothing.
 */
export function pageRoute(app: FastifyInstance, limits: PeerLimits): void {
  app.route({
    method: ["GET", "HEAD"],
    url: "/approvals/:id/page",
    handler: async (request, reply) => {
      checkPeerHeaders(request.raw, limits);
      const id = idOf(request);
      return reply
        .code(id === undefined ? 404 : 200)
        .headers(HEADERS)
        .send(id === undefined ? NO_PAGE : pageOf(id));
    },
  });
}

const NO_PAGE = htmlOf("No such approval", "<p>This is no address of an approval.</p>");

/** Renders the page. The id was checked: it holds only hexadecimal digits and dashes. */
function pageOf(id: string): string {
  return htmlOf(
    "A call waits for a decision",
    `<p>Approval <code>${id}</code>. This page decides nothing. Who may decide does it with a token of their own:</p>
<pre>stc approvals show ${id}
stc approvals approve ${id}
stc approvals deny ${id} --reason "…"</pre>
<p>Read what would run before you say yes: <code>show</code> prints it. Whether the question is still open, who asks it
and what it is about is told to holders of a token alone.</p>`,
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
