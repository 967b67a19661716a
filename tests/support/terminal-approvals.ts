import { canonicalJson, sha256Hex } from "../../src/core/digest.ts";

export interface Decided {
  readonly id: string;
  readonly body: Readonly<Record<string, unknown>>;
}

type Approval = Readonly<Record<string, unknown>> & { readonly id: string; readonly state: string };

const PLAN_DIGEST = "cd".repeat(32);
export const FIRST = "01900000-0000-7000-8000-000000000001";
export const SECOND = "01900000-0000-7000-8000-000000000002";

/** A question as the service tells it to operators; `changes` replace some of it. */
export function question(changes: Readonly<Record<string, unknown>> = {}): Approval {
  const shown = "view" in changes ? changes["view"] : view();
  return {
    id: FIRST,
    state: "pending",
    tool: "set_limit",
    summary: "set_limit on ledger (write, medium risk)",
    createdAt: new Date(Date.now()).toISOString(),
    decideBy: new Date(Date.now() + 600_000).toISOString(),
    options: ["cancel", "once", "session"],
    version: 1,
    risk: "medium",
    rules: ["approval.required"],
    viewDigest: viewDigestOf(shown),
    planDigest: PLAN_DIGEST,
    requester: { sub: "agent-7", iss: "https://idp.test", act: [] },
    decidable: true,
    view: shown,
    ...changes,
  };
}

/** As the service binds a view to its plan. */
function viewDigestOf(shown: unknown): string {
  const limits = { depthMax: 1_000, nodesMax: 1_000_000, bytesMax: 16_777_216 };
  return sha256Hex(canonicalJson({ t: "stc/view/v1", planDigest: PLAN_DIGEST, view: shown ?? null }, limits));
}

export function view(changes: Readonly<Record<string, unknown>> = {}): Readonly<Record<string, unknown>> {
  return {
    tool: "set_limit",
    description: "Set a limit",
    classification: "write",
    category: "command",
    risk: "medium",
    rules: ["approval.required"],
    notes: [],
    target: { system: "ledger", kind: "cli" },
    command: ["/usr/bin/ledger", "set", "--limit=5"],
    workingDir: "/srv/ledger",
    environment: { PATH: "/usr/bin" },
    arguments: { limit: 5 },
    requester: { issuer: "https://idp.test", subject: "agent-7", actors: [] },
    confinement: "none",
    ...changes,
  };
}

/** The approval routes as far as operators' commands use them, over real HTTP: the routes' own tests are elsewhere. */
export class StandInApprovals {
  readonly decisions: Decided[] = [];
  readonly requests: string[] = [];
  /** `Last-Event-ID` of each stream that was opened. */
  readonly resumed: (string | null)[] = [];
  /** What the next decision is answered instead. */
  refusal: { readonly status: number; readonly code: string; readonly message: string } | undefined;
  /** What the next yes changes, where it is not enough. */
  counted: Readonly<Record<string, unknown>> | undefined;
  #approvals = new Map<string, Approval>();
  #streams = new Set<ReadableStreamDefaultController<Uint8Array>>();
  #seq = 100;
  readonly #server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch: (request) => this.#route(request),
  });

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`;
  }

  get streams(): number {
    return this.#streams.size;
  }

  add(approval: Approval): void {
    this.#approvals.set(approval.id, approval);
    this.tell("approval.requested", approval.id);
  }

  /** Changes it without a word on the stream. */
  set(id: string, changes: Readonly<Record<string, unknown>>): void {
    this.#approvals.set(id, { ...this.#get(id), ...changes });
  }

  tell(type: string, id: string): void {
    this.#seq += 1;
    const text = `id: ${this.#seq}\nevent: ${type}\ndata: ${JSON.stringify({ id, tool: "t", summary: "s", at: "now" })}\n\n`;
    for (const stream of this.#streams) stream.enqueue(Buffer.from(text));
  }

  cutStreams(): void {
    for (const stream of this.#streams) stream.close();
    this.#streams.clear();
  }

  async close(): Promise<void> {
    await this.#server.stop(true);
  }

  #get(id: string): Approval {
    const approval = this.#approvals.get(id);
    if (approval === undefined) throw new Error(`there is no ${id}`);
    return approval;
  }

  async #route(request: Request): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    this.requests.push(`${request.method} ${pathname}${search}`);
    if (request.headers.get("authorization") !== "Bearer operator.token.x") {
      return refuse(401, "UNAUTHENTICATED", "The token is not good.");
    }
    if (pathname === "/events") return this.#stream(request);
    const [, what, id = "", action] = pathname.split("/");
    if (what === "grants") return this.#other(request, { grants: [grant()] }, { grant: { id, revoked: true } });
    if (what === "sessions") return this.#other(request, { sessions: [session()] }, { session: session() });
    if (id === "")
      return Response.json({ approvals: [...this.#approvals.values()].map(({ view: _, ...rest }) => rest) });
    const approval = this.#approvals.get(id);
    if (approval === undefined) return refuse(404, "APPROVAL_NOT_FOUND", "There is no such approval.");
    if (action === undefined) return Response.json({ approval });
    return this.#change(approval, action, (await request.json()) as Readonly<Record<string, unknown>>);
  }

  async #other(request: Request, listed: object, changed: object): Promise<Response> {
    if (request.body !== null)
      this.decisions.push({ id: request.url, body: (await request.json()) as Decided["body"] });
    return Response.json(request.method === "GET" ? listed : changed);
  }

  #change(approval: Approval, action: string, body: Readonly<Record<string, unknown>>): Response {
    const { id } = approval;
    this.decisions.push({ id, body });
    if (this.refusal !== undefined) return refuse(this.refusal.status, this.refusal.code, this.refusal.message);
    if (this.counted !== undefined && body["decision"] === "approve") {
      const still = { ...approval, ...this.counted };
      this.counted = undefined;
      this.set(id, still);
      this.tell("approval.voted", id);
      return Response.json({ approval: still });
    }
    const state =
      action === "revoke" ? "revoked" : ({ approve: "approved", deny: "denied" }[String(body["decision"])] ?? "?");
    const { view: _, ...changed }: Approval = { ...approval, state, ...("scope" in body && { scope: body["scope"] }) };
    this.set(id, changed);
    this.tell(`approval.${state}`, id);
    return Response.json({ approval: changed });
  }

  #stream(request: Request): Response {
    this.resumed.push(request.headers.get("last-event-id"));
    let own: ReadableStreamDefaultController<Uint8Array> | undefined;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        own = controller;
        controller.enqueue(Buffer.from(`: open\nid: ${this.#seq}\n\n`));
        this.#streams.add(controller);
      },
      cancel: () => {
        if (own !== undefined) this.#streams.delete(own);
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  }
}

function refuse(status: number, code: string, message: string): Response {
  return Response.json({ status: "denied", error: { code, stage: "APPROVAL", message, retryable: false } }, { status });
}

function grant(): object {
  const { id, tool, summary, createdAt } = question();
  return {
    id,
    tool,
    summary,
    session: "s-1\u001b[2J",
    approvalId: FIRST,
    createdAt,
    expiresAt: createdAt,
    subject: "agent-7",
  };
}

function session(): object {
  const { createdAt } = question();
  return {
    id: "s-1",
    mode: "yolo",
    modeUntil: createdAt,
    expiresAt: createdAt,
    subject: "agent-7",
    issuer: "https://idp.test",
  };
}
