/**
 * An agent that can wait for a person. It makes one call; when the call needs an approval, it waits for the decision and then
 * makes the same call again with the approval's id.
 *
 *     STC_URL=http://127.0.0.1:8787 STC_TOKEN=… bun docs/examples/asking-agent.ts bash '{"command":"ls -l"}'
 */
const base = process.env["STC_URL"] ?? "http://127.0.0.1:8787";
const authorization = `Bearer ${process.env["STC_TOKEN"] ?? ""}`;
const [tool = "", args = "{}", reason] = process.argv.slice(2);

interface Reply {
  readonly status: "success" | "pending" | "denied" | "error";
  readonly result?: unknown;
  readonly error?: { readonly code: string; readonly message: string };
  readonly approval?: { readonly id: string; readonly statusUrl: string };
}

async function call(approval?: { readonly id: string }): Promise<Reply> {
  const response = await fetch(new URL("/call", base), {
    method: "POST",
    headers: { authorization, "content-type": "application/json" },
    body: JSON.stringify({ tool, args: JSON.parse(args), reason, approval }),
  });
  return (await response.json()) as Reply;
}

/** Polls the approval request until it is no longer pending; the service holds each poll for up to 30 s. */
async function answerTo(statusUrl: string): Promise<string> {
  for (;;) {
    const response = await fetch(new URL(`${statusUrl}?wait=30`, base), { headers: { authorization } });
    const { approval } = (await response.json()) as { approval: { state: string } };
    if (approval.state !== "pending") return approval.state;
  }
}

let reply = await call();
if (reply.status === "pending" && reply.approval !== undefined) {
  console.error(`waiting for a person: approval ${reply.approval.id}`);
  console.error(`the answer: ${await answerTo(reply.approval.statusUrl)}`);
  // Call again after a denial too: the service returns the approver's reason.
  reply = await call({ id: reply.approval.id });
}
console.log(JSON.stringify(reply.status === "success" ? reply.result : reply.error));
process.exitCode = reply.status === "success" ? 0 : 1;
