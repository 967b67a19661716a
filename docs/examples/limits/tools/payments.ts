import { defineTool } from "safe-tool-call";
import { z } from "zod";

/** Represents a payment system. */
const refunds = new Map<string, number>();

const payment = z.string().regex(/^P-\d{1,9}$/);

export const refundPayment = defineTool({
    name: "payments_refund",
    description: "Refunds a payment.",
    classification: "write",
    category: "write",
    cost: 0.25,
    permissions: { required: ["payments:refund"] },
    input: z.strictObject({ payment, cents: z.int().min(1).max(5_000) }),
    output: z.object({ refundedCents: z.int() }),
    outputPolicy: { refundedCents: "allow" },
    inputPolicy: { payment: "allow" },
    approval: { needsApproval: () => false },
    handler({ payment, cents }) {
      const refundedCents = (refunds.get(payment) ?? 0) + cents;
      refunds.set(payment, refundedCents);
      return { refundedCents };
    },
  });

export const refundsOfPayment = defineTool({
    name: "payments_status",
    description: "Says how much of a payment was refunded.",
    classification: "read",
    permissions: { required: ["payments:read"] },
    input: z.strictObject({ payment }),
    output: z.object({ refundedCents: z.int() }),
    outputPolicy: { refundedCents: "allow" },
    inputPolicy: { payment: "allow" },
    handler: ({ payment }) => ({ refundedCents: refunds.get(payment) ?? 0 }),
  });
