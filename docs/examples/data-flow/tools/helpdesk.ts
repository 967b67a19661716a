import { defineTool } from "safe-tool-call";
import { z } from "zod";

/** Represents a help desk: anybody may open a ticket and write any text into it. */
const TICKETS: Readonly<Record<string, { requester: string; body: string }>> = {
  "812": { requester: "ann@customer.example", body: "The refund goes to DE89 3704 0044 0532 0130 00, please." },
};

export const getTicket = defineTool({
  name: "get_ticket",
  description: "Read a ticket",
  classification: "read",
  permissions: { required: ["tickets:read"] },
  input: z.strictObject({ id: z.string().regex(/^[0-9]{1,9}$/) }),
  // The audit may contain the ticket's number, so approvers see it, too.
  inputPolicy: { id: "allow" },
  target: { system: "helpdesk" },
  handler: ({ id }) => ({ ticket: TICKETS[id] ?? { requester: "", body: "" } }),
  output: z.strictObject({ ticket: z.strictObject({ requester: z.string(), body: z.string() }) }),
  outputPolicy: { "ticket.requester": "allow", "ticket.body": "allow" },
  // The help desk has checked the requester's address; the text may be from anybody.
  dataFlow: { reads: ["untrusted"], sends: [], trusted: ["ticket.requester"] },
});

export const getCustomer = defineTool({
  name: "get_customer",
  description: "Read what is known of a customer",
  classification: "read",
  permissions: { required: ["customers:read"] },
  input: z.strictObject({ requester: z.string().max(256) }),
  target: { system: "customers" },
  handler: () => ({ contract: "gold", openCents: 4200 }),
  output: z.strictObject({ contract: z.string(), openCents: z.int() }),
  outputPolicy: { contract: "allow", openCents: "allow" },
  dataFlow: { reads: ["private"], sends: [] },
});

export const refund = defineTool({
  name: "refund",
  description: "Send a refund",
  classification: "write",
  category: "write",
  permissions: { required: ["refunds:send"] },
  input: z.strictObject({ iban: z.string().max(64), cents: z.int().min(1).max(100_000) }),
  target: { system: "bank" },
  handler: ({ cents }) => ({ refundedCents: cents }),
  output: z.strictObject({ refundedCents: z.int() }),
  outputPolicy: { refundedCents: "allow" },
  dataFlow: { reads: [], sends: [], destinations: ["iban"] },
});

export const sendMail = defineTool({
  name: "send_mail",
  description: "Send a mail",
  classification: "write",
  category: "network",
  permissions: { required: ["mail:send"] },
  input: z.strictObject({ to: z.array(z.string().max(256)).max(10), body: z.string().max(10_000) }),
  target: { system: "mail" },
  handler: ({ to }) => ({ sent: to.length }),
  output: z.strictObject({ sent: z.int() }),
  outputPolicy: { sent: "allow" },
  dataFlow: { reads: [], sends: ["outside"], destinations: ["to"] },
});
