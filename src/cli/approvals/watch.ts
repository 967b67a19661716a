import { isTable } from "../../core/json.ts";
import { printable } from "../../core/printable.ts";
import { type Client, type ClientOptions, connect, problemOf, type ServiceAnswer, UNKNOWN_ANSWER } from "../client.ts";
import { EXIT, print, StdoutError, wrongUsage } from "../output.ts";
import { isViewOfDigest, readApproval, readApprovalPage, readEventSubject, type ShownApproval } from "./answers.ts";
import { NO_VIEW, VIEW_MISMATCH } from "./approvals.ts";
import { type Choice, decisionPrompt, followUpsOf, HOW_TO_ANSWER, readChoice, unclearText } from "./choices.ts";
import { followEvents, type StreamUpdate } from "./events.ts";
import { TERMINAL_CLOSED, Terminal } from "./terminal.ts";
import { type ApprovalParts, approvalParts, missingText } from "./view.ts";

const REQUEST_TIMEOUT_MS = 30_000;
const PENDING_PATH = "/approvals?state=pending&limit=200";
/** Resolution of the service's `Date` header: whole seconds. */
const CLOCK_GRAIN_MS = 1_000;
const RETRY_MS = 5_000;
const NOT_AN_ANSWER = "That is not an answer; nothing is decided.";
const TIMER_MS_MAX = 2_147_483_647;
/** Lines of a page that stay free for the prompt and for the line about waiting requests. */
const PAGE_ROWS_SPARE = 3;
const PAGE_ROWS_MIN = 5;

const ASK_AGAIN: ReadonlySet<string> = new Set(["approval.requested", "approval.voted", "approval.escalated"]);

/** `stc approvals watch`: shows each approval request as it arrives and sends the operator's decision. */
export async function watchApprovals(options: ClientOptions): Promise<void> {
  if (!process.stdin.isTTY || !process.stdout.isTTY) {
    wrongUsage("watch is interactive: standard input and output must be a terminal");
  }
  if (options.tokenFile === "-") wrongUsage("watch reads answers from standard input: put the token into a file");
  const client = connect(options);
  const terminal = new Terminal();
  try {
    process.exitCode = await new Watch(client, terminal).run();
  } catch (error) {
    if (!(error instanceof StdoutError)) throw error;
    // The terminal was closed, so nobody can answer.
    process.exit(TERMINAL_CLOSED);
  } finally {
    terminal.close();
  }
}

interface OpenRequest {
  readonly id: string;
  readonly withdrawal: AbortController;
}

interface PromptContext {
  readonly approval: ShownApproval;
  readonly signal: AbortSignal;
  /** The service's clock; undefined when the service does not report its time. */
  readonly clock: () => number | undefined;
}

interface PromptReader<T> {
  readonly read: (text: string) => T | undefined;
  readonly unclearText: (text: string) => string;
}

/**
 * Shows the pending approvals one after another. Events only cause the list of pending approvals to be read again, or withdraw
 * the request on the screen.
 */
class Watch {
  readonly #client: Client;
  readonly #terminal: Terminal;
  readonly #stopped = new AbortController();
  #exitCode = 0;
  #changed = Promise.withResolvers<void>();
  #open: OpenRequest | undefined;
  /** Ids of pending requests that are not shown again. */
  readonly #handled = new Set<string>();
  #waiting = 0;
  #isDisconnected = false;
  #retry: ReturnType<typeof setTimeout> | undefined;

  constructor(client: Client, terminal: Terminal) {
    this.#client = client;
    this.#terminal = terminal;
    terminal.leaving.addEventListener("abort", () => this.#end(terminal.exitCode), { once: true });
  }

  async run(): Promise<number> {
    print.line(`Watching ${printable(this.#client.url)}. Ctrl-C leaves without deciding.`);
    print.line(HOW_TO_ANSWER);
    const following = this.#follow();
    while (!this.#stopped.signal.aborted) {
      await this.#changed.promise;
      // Replaced before the list is read, so that an event during the reading causes another one.
      this.#changed = Promise.withResolvers<void>();
      for (let next = await this.#nextId(); next !== undefined; next = await this.#nextId()) {
        if (!(await this.#decide(next))) break;
      }
    }
    clearTimeout(this.#retry);
    await following;
    return this.#exitCode;
  }

  #end(exitCode: number): void {
    if (this.#stopped.signal.aborted) return;
    this.#exitCode = exitCode;
    this.#stopped.abort();
    this.#changed.resolve();
    if (!this.#terminal.leaving.aborted) this.#open?.withdrawal.abort("watching is over");
  }

  async #follow(): Promise<void> {
    for await (const update of followEvents(this.#client, this.#stopped.signal)) {
      await this.#handle(update);
      if (update.kind !== "event" || ASK_AGAIN.has(update.event.type)) this.#changed.resolve();
    }
  }

  async #handle(update: StreamUpdate): Promise<void> {
    if (update.kind === "refused") return this.#fail(problemOf(update.answer));
    if (update.kind === "lost") return this.#reportDisconnect();
    if (update.kind === "connected") {
      if (this.#isDisconnected && this.#open === undefined) print.line("reconnected");
      this.#isDisconnected = false;
      // The request on the screen may have ended while the connection was down.
      return this.#open === undefined ? undefined : this.#recheck(this.#open);
    }
    const { type, data } = update.event;
    const id = readEventSubject(data);
    // The next stage may be open now, or further approvers eligible: the same person may be able to decide.
    if ((type === "approval.voted" || type === "approval.escalated") && id !== undefined) this.#handled.delete(id);
    const isOver = type.startsWith("approval.") && !ASK_AGAIN.has(type);
    if (isOver && this.#open?.id === id) this.#open?.withdrawal.abort(`${type.slice("approval.".length)} elsewhere`);
  }

  #reportDisconnect(): void {
    if (!this.#isDisconnected && this.#open === undefined)
      print.line(`no events from ${printable(this.#client.url)}; trying again`);
    this.#isDisconnected = true;
  }

  #fail(problem: string): void {
    print.error(problem);
    this.#end(EXIT.failed);
  }

  async #recheck(open: OpenRequest): Promise<void> {
    const answer = await this.#get(`/approvals/${open.id}`);
    const state = answer === undefined || answer.status >= 400 ? undefined : readApproval(answer.body)?.state;
    if (state !== undefined && state !== "pending") open.withdrawal.abort(`${state} elsewhere`);
  }

  /** Returns the id of the pending approval that has the least time left. */
  async #nextId(): Promise<string | undefined> {
    if (this.#stopped.signal.aborted) return undefined;
    const answer = await this.#get(PENDING_PATH);
    if (answer === undefined || isTemporary(answer)) return this.#retryLater();
    const page = answer.status < 400 ? readApprovalPage(answer.body) : undefined;
    if (page === undefined) {
      this.#fail(problemOf(answer));
      return undefined;
    }
    const pending = page.approvals.filter(({ state }) => state === "pending");
    for (const id of this.#handled) if (!pending.some((one) => one.id === id)) this.#handled.delete(id);
    const open = pending.filter(({ id, decidable }) => decidable && !this.#handled.has(id));
    this.#waiting = Math.max(open.length - 1, 0);
    return open.sort((one, other) => Date.parse(one.decideBy) - Date.parse(other.decideBy))[0]?.id;
  }

  /** Shows one approval and sends the decision. Returns false when the service is not available now. */
  async #decide(id: string): Promise<boolean> {
    const open = { id, withdrawal: new AbortController() };
    this.#open = open;
    try {
      const answer = await this.#get(`/approvals/${id}`);
      if (answer === undefined || isTemporary(answer)) {
        this.#retryLater();
        return false;
      }
      this.#handled.add(id);
      const approval = answer.status < 400 ? readApproval(answer.body) : undefined;
      // The decision is sent to the id that was shown, so the answer must have that id.
      if (approval?.id === id && !isViewOfDigest(approval)) print.line(`not shown: ${id}: ${VIEW_MISMATCH}`);
      else if (approval?.id === id && approval.state === "pending") await this.#ask(approval, open, answer.servedAt);
      else if (approval?.id !== id) print.line(`not shown: ${id}: ${problemOf(answer)}`);
      return true;
    } finally {
      this.#open = undefined;
    }
  }

  async #ask(approval: ShownApproval, open: OpenRequest, servedAt: number | undefined): Promise<void> {
    if (approval.viewDigest === undefined || approval.view === undefined) return this.#fail(NO_VIEW);
    const { withdrawal } = open;
    const clock = clockFrom(servedAt);
    const timer = expiry(Date.parse(approval.decideBy), servedAt, () => withdrawal.abort("nobody decided in time"));
    try {
      const choice = await this.#choose({ approval, signal: withdrawal.signal, clock });
      if (choice !== undefined) return await this.#send(approval, choice);
    } finally {
      clearTimeout(timer);
    }
    if (this.#terminal.leaving.aborted) return;
    print.line(`withdrawn: ${open.id}: ${printable(String(withdrawal.signal.reason))}`);
  }

  /** Reads the list again later: requests may fail although the event stream works. */
  #retryLater(): undefined {
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.#changed.resolve(), RETRY_MS);
  }

  /**
   * Shows the view page by page and then asks for a decision, so that nobody can answer without seeing the end. Returns
   * undefined when the request was withdrawn or the operator left.
   */
  async #choose(shown: PromptContext): Promise<Choice | undefined> {
    const { approval, clock } = shown;
    if (!(await this.#showPages(shown))) return undefined;
    let choice = await this.#read(shown, () => decisionPrompt(approval, clock()), {
      read: (text) => readChoice(approval, text),
      unclearText: (text) => unclearText(approval, text),
    });
    for (const { prompt, add } of choice === undefined ? [] : followUpsOf(approval, choice)) {
      const made: Choice | undefined = choice;
      if (made === undefined) return undefined;
      choice = await this.#read(shown, () => prompt, {
        read: (text) => add(made, text),
        unclearText: () => NOT_AN_ANSWER,
      });
    }
    return choice;
  }

  async #showPages({ approval, signal, clock }: PromptContext): Promise<boolean> {
    const shown = approvalParts(approval, { columns: this.#terminal.columns, now: clock(), isAsked: true });
    const pages = pagesOf(shown, Math.max(this.#terminal.rows - PAGE_ROWS_SPARE, PAGE_ROWS_MIN));
    print.line(this.#waiting === 0 ? "" : `\n(${this.#waiting} more after this one)`);
    for (const [at, lines] of pages.entries()) {
      print.line(lines.join("\n"));
      if (at === pages.length - 1) break;
      const reply = await this.#terminal.ask(() => `-- page ${at + 1} of ${pages.length}; Enter continues --`, signal);
      if (reply.kind !== "line") return false;
    }
    return true;
  }

  async #read<T>(
    { signal }: PromptContext,
    prompt: () => string,
    { read, unclearText }: PromptReader<T>,
  ): Promise<T | undefined> {
    for (;;) {
      const reply = await this.#terminal.ask(prompt, signal);
      if (reply.kind !== "line") return undefined;
      const answer = read(reply.text);
      if (answer !== undefined) return answer;
      print.line(unclearText(reply.text));
    }
  }

  async #send(approval: ShownApproval, choice: Choice): Promise<void> {
    const body = JSON.stringify({ ...choice, viewDigest: approval.viewDigest });
    const path = `/approvals/${approval.id}/decisions`;
    const answer = await this.#client.send({ method: "POST", path, body, timeoutMs: REQUEST_TIMEOUT_MS });
    if (answer === undefined) {
      print.line(`${printable(this.#client.noAnswer())}: ${approval.id} may or may not be decided`);
      this.#handled.delete(approval.id);
      return;
    }
    if (answer.status < 400) return print.line(outcome(choice, approval, readApproval(answer.body)));
    print.line(`not decided: ${approval.id}: ${problemOf(answer)}`);
    if (answer.status === 401) this.#end(EXIT.failed);
    if (isFixable(answer.body) || isTemporary(answer)) this.#handled.delete(approval.id);
  }

  #get(path: string): Promise<ServiceAnswer | undefined> {
    return this.#client.send({ method: "GET", path, timeoutMs: REQUEST_TIMEOUT_MS });
  }
}

function outcome(choice: Choice, { id }: ShownApproval, after: ShownApproval | undefined): string {
  if (after?.id !== id) return `${UNKNOWN_ANSWER}: ${id} may or may not be decided`;
  if (after.state !== "pending")
    return `${choice.decision === "deny" ? "denied" : `approved (${choice.scope})`}${vouchedText(choice)}: ${id}`;
  return choice.decision === "deny"
    ? `not decided: ${id}: it is still pending`
    : `counted: ${id} still needs ${missingText(after)}`;
}

function vouchedText({ vouch = [] }: Choice): string {
  return vouch.length === 0 ? "" : `, with ${vouch.length} value${vouch.length === 1 ? "" : "s"} vouched for`;
}

/** Returns a clock that starts at the service's time and advances with this machine's clock. */
function clockFrom(servedAt: number | undefined): () => number | undefined {
  const aheadMs = servedAt === undefined ? undefined : servedAt - Date.now();
  return () => (aheadMs === undefined ? undefined : Date.now() + aheadMs);
}

/** Splits the lines into pages. Keeps the subject of the decision on one page when it fits. */
function pagesOf({ details, subject }: ApprovalParts, rows: number): readonly (readonly string[])[] {
  const pages = chunked(details, rows);
  const last = pages.at(-1) ?? [];
  if (last.length + subject.length <= rows) return [...pages.slice(0, -1), [...last, ...subject]];
  return [...pages, ...chunked(subject, rows)];
}

function chunked(lines: readonly string[], rows: number): readonly (readonly string[])[] {
  return Array.from({ length: Math.ceil(lines.length / rows) }, (_, at) => lines.slice(at * rows, (at + 1) * rows));
}

function expiry(decideBy: number, now: number | undefined, end: () => void): ReturnType<typeof setTimeout> | undefined {
  if (now === undefined) return undefined;
  return setTimeout(end, Math.min(Math.max(decideBy - now + CLOCK_GRAIN_MS, 0), TIMER_MS_MAX));
}

const FIXABLE: ReadonlySet<unknown> = new Set(["APPROVAL_MISMATCH", "INVALID_INPUT"]);
/** Returns whether to try again: there were too many requests, the server failed, or the service starts or drains. */
function isTemporary({ status }: ServiceAnswer): boolean {
  return status === 408 || status === 429 || status >= 500;
}

/** Returns whether showing the request again can fix the error: the view changed, or a reason is missing. */
function isFixable(body: unknown): boolean {
  const error = isTable(body) ? body["error"] : undefined;
  return isTable(error) && FIXABLE.has(error["code"]);
}
