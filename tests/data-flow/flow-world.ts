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
export const ANSWERS: { mail: Mail; account: Readonly<Record<string, unknown>>; page: string; duringNote: () => void } =
  {
    mail: { body: "" },
    account: {},
    page: "",
    duringNote: () => {},
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
  handler: () => {
    ANSWERS.duringNote();
    return { ok: true };
  },
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

/** Notes, tickets and contacts, which the tools below store as they are told. */
export const STORED: { notes: string[]; contacts: { name: string; email: string }[]; failsAfterwards: boolean } = {
  notes: [],
  contacts: [],
  failsAfterwards: false,
};

const keepNote = defineTool({
  name: "keep_note",
  description: "Keep a note",
  classification: "write",
  category: "write",
  permissions: may,
  input: z.strictObject({ text }),
  inputPolicy: { "*": "allow" },
  target: { system: "notes" },
  handler: ({ text: kept }) => {
    STORED.notes.push(kept);
    if (STORED.failsAfterwards) throw new Error("the connection was lost");
    return { ok: true };
  },
  output: z.strictObject({ ok: z.boolean() }),
  outputPolicy: { ok: "allow" },
  dataFlow: { reads: [], sends: [] },
});

const listNotes = defineTool({
  name: "list_notes",
  description: "List the notes",
  classification: "read",
  permissions: may,
  input: z.strictObject({}),
  target: { system: "notes" },
  handler: () => ({ notes: STORED.notes }),
  output: z.strictObject({ notes: z.array(text) }),
  outputPolicy: { "*": "allow" },
  dataFlow: { reads: [], sends: [] },
});

const addContact = defineTool({
  name: "add_contact",
  description: "Add a contact",
  classification: "write",
  category: "write",
  permissions: may,
  input: z.strictObject({ name: text, email: text }),
  inputPolicy: { "*": "allow" },
  target: { system: "contacts" },
  handler: (contact) => {
    STORED.contacts.push(contact);
    return { ok: true };
  },
  output: z.strictObject({ ok: z.boolean() }),
  outputPolicy: { ok: "allow" },
  dataFlow: { reads: [], sends: [] },
});

/** The address book vouches for its addresses. */
const listContacts = defineTool({
  name: "list_contacts",
  description: "List the contacts",
  classification: "read",
  permissions: may,
  input: z.strictObject({}),
  target: { system: "contacts" },
  handler: () => ({ contacts: STORED.contacts }),
  output: z.strictObject({ contacts: z.array(z.strictObject({ name: text, email: text })) }),
  outputPolicy: {
    "contacts[].name": { action: "allow", reason: "needed to find a person" },
    "contacts[].email": { action: "allow", reason: "needed to write to a person" },
  },
  dataFlow: { reads: [], sends: [], trusted: ["contacts[].name", "contacts[].email"] },
});

export const STORE_TOOLS = [keepNote, listNotes, addContact, listContacts];

export const TOOLS = [readMail, readAccount, sendMail, pay, note, createEvent, ...STORE_TOOLS];

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

  /** Makes the service forget what a caller has read, as when that has expired. */
  async forgets(subject = "agent-7"): Promise<void> {
    const issuer = this.entries().at(-1)?.caller.iss ?? "";
    const token = await this.person({ permissions: ["data-flow:write"] });
    const body = { issuer, subject, reason: "its work has ended" };
    await this.send("POST", "/data-flow/clear", { token, body });
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
