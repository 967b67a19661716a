import { z } from "zod";
import { defineTool } from "../../src/index.ts";
import { AskingService, type CallExtras, type Reply } from "../support/asking-service.ts";

const text = z.string().max(100_000);

/** What the mailbox holds: `read_mail` returns it. */
export interface Mail {
  readonly sender?: string;
  readonly subject?: string;
  readonly body: string;
}

/** Answers of the tools, which tests change. */
export const ANSWERS: { mail: Mail; account: Readonly<Record<string, unknown>>; page: string } = {
  mail: { body: "" },
  account: {},
  page: "",
};

const may = { required: ["deeds:do"] };

/** Reads text that strangers wrote; the mail server vouches for the sender. */
const readMail = defineTool({
  name: "read_mail",
  description: "Read a mail",
  classification: "read",
  permissions: may,
  input: z.strictObject({ id: z.int().min(0).max(1_000) }),
  target: { system: "mail" },
  handler: () => ANSWERS.mail,
  output: z.strictObject({ sender: text.optional(), subject: text.optional(), body: text }),
  outputPolicy: { sender: { action: "allow", reason: "needed to answer the mail" }, "*": "allow" },
  dataFlow: { reads: ["untrusted"], trusted: ["sender"] },
});

const readAccount = defineTool({
  name: "read_account",
  description: "Read an account",
  classification: "read",
  permissions: may,
  input: z.strictObject({}),
  target: { system: "bank" },
  handler: () => ANSWERS.account as never,
  output: z.strictObject({ number: text.optional(), balance: z.number().optional(), note: text.optional() }),
  outputPolicy: { "*": "allow" },
  dataFlow: { reads: ["private"] },
});

const sendMail = defineTool({
  name: "send_mail",
  description: "Send a mail",
  classification: "write",
  category: "network",
  permissions: may,
  input: z.strictObject({ to: z.array(text).max(10), subject: text.optional(), body: text }),
  inputPolicy: { "*": "allow" },
  target: { system: "mail" },
  handler: ({ to }) => ({ sent: to.length }),
  output: z.strictObject({ sent: z.int() }),
  outputPolicy: { sent: "allow" },
  dataFlow: { reads: [], sends: ["outside"], destinations: ["to"] },
});

/** Pays within the bank: nothing leaves, but the account says where the money goes. */
const pay = defineTool({
  name: "pay",
  description: "Pay an invoice",
  classification: "write",
  permissions: may,
  category: "write",
  input: z.strictObject({ iban: text, amount: z.number() }),
  inputPolicy: { "*": "allow" },
  target: { system: "bank" },
  handler: ({ amount }) => ({ paid: amount }),
  output: z.strictObject({ paid: z.number() }),
  outputPolicy: { paid: "allow" },
  dataFlow: { reads: [], sends: [], destinations: ["iban"] },
});

/** Says nothing about data flow: a function has none of its own. */
const note = defineTool({
  name: "take_note",
  description: "Take a note",
  classification: "write",
  category: "write",
  permissions: may,
  input: z.strictObject({ text }),
  inputPolicy: { "*": "allow" },
  target: { system: "notes" },
  handler: () => ({ ok: true }),
  output: z.strictObject({ ok: z.boolean() }),
  outputPolicy: { ok: "allow" },
});

/** A calendar: an event without participants is the caller's own. */
const createEvent = defineTool({
  name: "create_event",
  description: "Create an event",
  classification: "write",
  category: "network",
  permissions: may,
  input: z.strictObject({ title: text, participants: z.array(text).max(10) }),
  inputPolicy: { "*": "allow" },
  target: { system: "calendar" },
  handler: () => ({ ok: true }),
  output: z.strictObject({ ok: z.boolean() }),
  outputPolicy: { ok: "allow" },
  dataFlow: { reads: [], sends: ["outside"], destinations: ["participants"], nobody: "whenEmpty" },
});

export const TOOLS = [readMail, readAccount, sendMail, pay, note, createEvent];

const STORE = { store: "sqlite://./approvals.sqlite", mode: "yolo" };

/** A service whose tools declare how data flows through them. */
export class FlowWorld extends AskingService {
  /** A mode in which only what the test is about asks a person. */
  async start(sections: Readonly<Record<string, unknown>> = {}): Promise<this> {
    await this.run({ tools: TOOLS, approvals: STORE, ...sections });
    return this;
  }

  async call(tool: string, args: unknown, { token, headers = {}, ...more }: CallExtras = {}): Promise<Reply> {
    return this.send("POST", "/call", { token: token ?? (await this.agent()), body: { tool, args, ...more }, headers });
  }

  /** Reads a mail with this text, as the agent. */
  async readsMail(mail: Mail | string, extras: CallExtras = {}): Promise<Reply> {
    ANSWERS.mail = typeof mail === "string" ? { body: mail } : mail;
    return this.call("read_mail", { id: 812 }, extras);
  }

  async readsAccount(account: Readonly<Record<string, unknown>>, extras: CallExtras = {}): Promise<Reply> {
    ANSWERS.account = account;
    return this.call("read_account", {}, extras);
  }
}
