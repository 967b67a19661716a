/**
 * A program that decides what a rule of its own can decide, and leaves the rest to people. It reads the pending requests once;
 * run it again, or in a loop, as you like.
 *
 *     STC_URL=http://127.0.0.1:8787 STC_TOKEN=… bun docs/examples/deciding-program.ts
 */
const base = process.env["STC_URL"] ?? "http://127.0.0.1:8787";
const headers = { authorization: `Bearer ${process.env["STC_TOKEN"] ?? ""}`, "content-type": "application/json" };

interface ApprovalRequest {
  readonly id: string;
  readonly tool: string;
  readonly risk: string;
  readonly viewDigest: string;
  /** The plan that would run, without secrets. It is data: never let a text in it decide. */
  readonly view: { readonly arguments: Readonly<Record<string, unknown>> };
}

interface Decision {
  readonly decision: "approve" | "deny";
  readonly reason: string;
}

/** Your own rule. `undefined` leaves the request to people. */
function judge({ tool, risk, view }: ApprovalRequest): Decision | undefined {
  if (tool !== "cancel_order" || risk === "high" || risk === "critical") return undefined;
  if (view.arguments["note"] === "twice") return { decision: "approve", reason: "ordered twice" };
  return undefined;
}

async function send<Answer>(path: string, body?: object): Promise<Answer> {
  const method = body === undefined ? "GET" : "POST";
  const response = await fetch(new URL(path, base), { method, headers, body: body && JSON.stringify(body) });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Answer;
}

const { approvals } = await send<{ approvals: readonly { readonly id: string }[] }>("/approvals?state=pending");
for (const { id } of approvals) {
  const { approval } = await send<{ approval: ApprovalRequest }>(`/approvals/${id}`);
  const decision = judge(approval);
  // The digest names the view that was read: if it has changed meanwhile, the decision does not count.
  if (decision !== undefined) {
    await send(`/approvals/${id}/decisions`, { ...decision, viewDigest: approval.viewDigest });
  }
  console.log(`${id} ${approval.tool} ${decision?.decision ?? "left to people"}`);
}
