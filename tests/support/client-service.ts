import { z } from "zod";
import { Refusal } from "../../src/core/errors.ts";
import { defineTool } from "../../src/index.ts";
import { AskingService } from "./asking-service.ts";

/** What the tools did, in order. */
export type NotesDone = string[];

const text = z.string().min(1).max(200);
const permissions = { required: ["notes:use"] };
const done = { output: z.object({ done: z.string() }), outputPolicy: { done: "allow" } } as const;

function tools(deeds: NotesDone, failures: () => number) {
  return [
    defineTool({
      ...done,
      name: "read_note",
      description: "Read the note with this title",
      classification: "read",
      permissions,
      input: z.strictObject({ title: text }),
      handler: ({ title }) => {
        deeds.push(`read ${title}`);
        return { done: `read ${title}` };
      },
    }),
    defineTool({
      ...done,
      name: "send_note",
      description: "Send a note to a person; asks for an approval",
      classification: "write",
      category: "network",
      permissions,
      input: z.strictObject({ to: text, note: text }),
      handler: ({ to }) => {
        deeds.push(`sent to ${to}`);
        return { done: `sent to ${to}` };
      },
    }),
    defineTool({
      ...done,
      name: "flaky_note",
      description: "Read a note that is unavailable at first",
      classification: "read",
      permissions,
      input: z.strictObject({ title: text }),
      handler: ({ title }) => {
        if (failures() > 0) throw new Refusal("TARGET_UNAVAILABLE", "The notes are unavailable at the moment.");
        deeds.push(`read ${title}`);
        return { done: `read ${title}` };
      },
    }),
    defineTool({
      ...done,
      name: "save_note",
      description: "Save a note without asking anybody",
      classification: "write",
      category: "write",
      permissions,
      input: z.strictObject({ title: text, waitMs: z.int().min(0).max(10_000).optional() }),
      approval: { needsApproval: () => false },
      handler: async ({ title, waitMs = 0 }) => {
        deeds.push(`saved ${title}`);
        await Bun.sleep(waitMs);
        return { done: `saved ${title}` };
      },
    }),
  ];
}

/**
 * The real service, as agents' clients meet it: `read_note` reads, `send_note` asks for an approval, `flaky_note` fails
 * `failures` times (once, unless a test says otherwise) with a retryable TARGET_UNAVAILABLE, `save_note` changes something without
 * asking. `approve` and `deny` decide as a person; `end` stops the service and removes its files.
 */
export class ClientService extends AskingService {
  readonly deeds: NotesDone = [];
  /** How often `flaky_note` fails from now on. */
  failures = 1;
  #sections: Readonly<Record<string, unknown>> = {};

  /** Starts the service on a free port. `sections` are those of a configuration; `approvals: false` leaves them out. */
  async start(sections: Readonly<Record<string, unknown>> = {}): Promise<this> {
    this.#sections = sections;
    const { approvals = {}, ...rest } = sections;
    const asked =
      approvals === false ? {} : { approvals: { store: "sqlite://./approvals.sqlite", ...(approvals as object) } };
    await this.run({ tools: tools(this.deeds, () => this.#countFailure()), ...asked, ...rest });
    return this;
  }

  /** Starts the service again on the same files and another port, or the one given. */
  async restart(port = 0): Promise<this> {
    await this.stop();
    return this.start({ ...this.#sections, server: { ...(this.#sections["server"] as object | undefined), port } });
  }

  /** Returns a token of an agent that may use all tools. */
  token(subject = "agent-7", lifetime = "10 minutes"): Promise<string> {
    return this.agent({ sub: subject, permissions: ["notes:use"], lifetime });
  }

  async approve(id: string, more: Readonly<Record<string, unknown>> = {}): Promise<void> {
    await this.#decided(id, "approve", more);
  }

  async deny(id: string, reason = "not today"): Promise<void> {
    await this.#decided(id, "deny", { reason });
  }

  async #decided(id: string, decision: "approve" | "deny", more: Record<string, unknown>): Promise<void> {
    const { http, body } = await this.decide(id, decision, more);
    if (http !== 200) throw new Error(`the decision was refused: ${JSON.stringify(body)}`);
  }

  /** Returns the open approval requests, oldest last. */
  async open(): Promise<readonly { readonly id: string; readonly tool: string }[]> {
    const { body } = await this.send("GET", "/approvals?state=pending", { token: await this.person() });
    return body.approvals;
  }

  #countFailure(): number {
    const left = this.failures;
    this.failures = Math.max(0, left - 1);
    return left;
  }
}
