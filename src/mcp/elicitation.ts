import type { Pending } from "../core/call-result.ts";
import { isTable } from "../core/json.ts";
import { ERROR } from "../core/mcp.ts";
import type { McpSettings } from "./part.ts";
import { opensPages, RpcError, type RpcRequest } from "./protocol.ts";
import type { JsonObject } from "./replies.ts";

/**
 * A client that can ask its user to open a page gets the URL of the page where approvers see the request (`approvals.pageUrl`).
 * Neither the page nor what the client answers decides anything: only a decision of an approver does. The client then sends the
 * same call again, which finds its request like any identical call. A call that would not find it gets no page.
 */

/**
 * The round of a call whose client opens pages. `first`: its client gets the URL. `later`: the client has shown it and waits. `declined`: the user does not
 * want to open it. `earlier`: a client of 2025-11-25, whose calls do not say which of these they are.
 */
export type PageRound = "first" | "later" | "declined" | "earlier";

/** The version whose clients get the URL in an error. Clients of earlier versions open no pages. */
const EARLIER = "2025-11-25";

const REQUEST_KEY = "approval";
/** Says only that the call was made before. It grants nothing, so that a client may forge it. */
const REQUEST_STATE = "pending";

/** Returns undefined when there is no page, or the client cannot open it. */
export function pageRoundOf(request: RpcRequest, { approvalPage }: McpSettings): PageRound | undefined {
  if (approvalPage === undefined || !opensPages(request)) return undefined;
  const { era, version, params } = request;
  if (era === "legacy") return version === EARLIER ? "earlier" : undefined;
  const { inputResponses, requestState } = params;
  if (inputResponses === undefined && requestState === undefined) return "first";
  const response = isTable(inputResponses) ? inputResponses[REQUEST_KEY] : undefined;
  return isTable(response) && response["action"] !== "accept" ? "declined" : "later";
}

const MESSAGE =
  "A person must approve this call before it runs. This page shows the request to approvers; opening it decides nothing.";

/** Returns the result that asks a client of 2026-07-28 to open the page, and to send the call again. */
export function pageRequest(pending: Pending, approvalPage: string): JsonObject {
  const params = { mode: "url", message: MESSAGE, url: urlOf(pending, approvalPage) };
  return { ...waitRequest(), inputRequests: { [REQUEST_KEY]: { method: "elicitation/create", params } } };
}

/** Returns the result after which a client of 2026-07-28 sends the call again without asking its user. */
export function waitRequest(): JsonObject {
  return { resultType: "input_required", requestState: REQUEST_STATE };
}

/** Returns the error that asks a client of 2025-11-25 to open the page. */
export function pageError(pending: Pending, approvalPage: string, { id }: Pick<RpcRequest, "id">): RpcError {
  const url = urlOf(pending, approvalPage);
  const elicitations = [{ mode: "url", elicitationId: pending.approval.id, message: MESSAGE, url }];
  const message =
    "APPROVAL_REQUIRED: A person is asked whether this call may run. Make the same call again to learn the decision.";
  return new RpcError(ERROR.urlElicitationRequired, message, { id, http: HTTP_OK, data: { elicitations } });
}

const HTTP_OK = 200;

function urlOf({ approval: { id } }: Pending, approvalPage: string): string {
  return approvalPage.replaceAll("{id}", encodeURIComponent(id));
}
