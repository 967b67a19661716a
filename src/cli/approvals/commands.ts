import { APPROVAL_STATES, MODES } from "../../core/types.ts";
import {
  argument,
  CLIENT,
  choice,
  command,
  defaulted,
  digest,
  duration,
  flag,
  group,
  option,
  required,
  TLS,
  text,
  time,
  URL_OPTION,
  type ValueKind,
} from "../command.ts";
import { readTerms, TERMS_HINT, type TypedTerms } from "./grant-terms.ts";

const MODE_SECONDS_MAX = 86_400;

const grantTerms: ValueKind<TypedTerms> = {
  placeholder: "terms",
  read: readTerms,
  expected: `write it as ${TERMS_HINT}`,
};

const ID = argument(text("id"));
const REASON = option(text("text"), "reason, for the agent");
const approvals = () => import("./approvals.ts");
const sessions = () => import("./sessions.ts");

/** Former names of `--sub` and `--iss`. */
const FORMER_OWNER = {
  subject: option(text("subject"), "--sub", { excludes: "sub", isFormer: true }),
  issuer: option(text("issuer"), "--iss", { excludes: "iss", isFormer: true }),
};

export const commands = [
  group("approvals", "Show approval requests, and decide them"),
  command({
    name: "approvals list",
    summary: "List the pending approval requests, newest first",
    uses: CLIENT,
    options: {
      state: defaulted(choice("state", [...APPROVAL_STATES, "all"]), {
        help: "those in this state, or all",
        fallback: "pending",
      }),
    },
    run: async (_, options) => (await approvals()).listApprovals(options),
  }),
  command({
    name: "approvals show",
    summary: "Show exactly what would run, and who requests it",
    arguments: { id: ID },
    uses: CLIENT,
    run: async ({ id }, options) => (await approvals()).showApproval(id, options),
  }),
  command({
    name: "approvals approve",
    summary: "Approve one call",
    arguments: { id: ID },
    uses: CLIENT,
    options: {
      session: flag("also approve the same call again in the same session", { excludes: "grant" }),
      grant: option(
        grantTerms,
        "also approve further calls within the offered bounds, at most so many, so long: runs=5,minutes=30; same=<argument>: as in this call",
      ),
      answer: option(text("text"), "answer to a request that requires one"),
      vouch: option(
        text("argument"),
        "also vouch for what the argument has now: later calls of the session do not ask because of where it came from",
      ),
      reason: REASON,
      viewDigest: option(
        digest,
        "digest of the view that was shown before (default: the current view, which is printed)",
      ),
    },
    run: async ({ id }, options) => (await approvals()).approve(id, options),
  }),
  command({
    name: "approvals deny",
    summary: "Deny one call",
    arguments: { id: ID },
    uses: CLIENT,
    options: { reason: REASON },
    run: async ({ id }, options) => (await approvals()).deny(id, options),
  }),
  command({
    name: "approvals revoke",
    summary: "Revoke an approval that has not been used",
    arguments: { id: ID },
    uses: CLIENT,
    run: async ({ id }, options) => (await approvals()).revoke(id, options),
  }),
  command({
    name: "approvals report",
    summary: "Show how people decided, and which rules would avoid approval requests",
    uses: CLIENT,
    options: {
      since: option(time, "30m, 7d, yesterday, 2026-02-16 … (default: 7d)"),
      until: option(time, "the same (default: now)"),
    },
    run: async (_, options) => (await import("./report.ts")).reportApprovals(options),
  }),
  command({
    name: "approvals watch",
    summary: "Show each approval request as it arrives, and ask for a decision; needs a terminal",
    options: {
      url: URL_OPTION,
      tokenFile: option(text("file"), "file that contains the token, read for each request (default: STC_TOKEN_FILE)"),
      ...TLS,
    },
    exits: {
      0: "left with Ctrl-D",
      1: "refused",
      129: "the terminal was closed",
      130: "left with Ctrl-C",
      143: "ended by SIGTERM",
    },
    run: async (_, options) => (await import("./watch.ts")).watchApprovals(options),
  }),

  group("grants", "Approvals that cover further calls"),
  command({
    name: "grants list",
    summary: "List the grants",
    uses: CLIENT,
    run: async (_, options) => (await sessions()).listGrants(options),
  }),
  command({
    name: "grants revoke",
    summary: "Revoke a grant",
    arguments: { id: ID },
    uses: CLIENT,
    run: async ({ id }, options) => (await sessions()).revokeGrant(id, options),
  }),

  group("mode", "Which calls of a session need an approval"),
  command({
    name: "mode list",
    summary: "List the sessions with their modes",
    uses: CLIENT,
    run: async (_, options) => (await sessions()).listModes(options),
  }),
  command({
    name: "mode set",
    summary: "Set the mode of a session for a limited time",
    arguments: {
      session: argument(
        text("session"),
        "id that `stc mode list` prints; for the session of a token, sid: followed by its `sid`",
      ),
      mode: argument(choice("mode", MODES)),
    },
    uses: CLIENT,
    options: {
      for: required(duration(MODE_SECONDS_MAX), "30s, 15m, 8h"),
      sub: option(text("subject"), "subject of the session, if the service has not seen the session yet"),
      iss: option(text("issuer"), "issuer of that subject's tokens"),
      ...FORMER_OWNER,
    },
    run: async ({ session, mode }, options) => (await sessions()).setMode(session, mode, options),
  }),
  command({
    name: "mode end",
    summary: "End a session, with its mode and its grants",
    arguments: { session: argument(text("session")) },
    uses: CLIENT,
    options: {
      sub: option(text("subject"), "subject of the session, if several callers have a session of this id"),
      iss: option(text("issuer"), "issuer of that subject's tokens"),
      ...FORMER_OWNER,
    },
    run: async ({ session }, options) => (await sessions()).endSession(session, options),
  }),
];
