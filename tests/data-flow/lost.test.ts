import { describe, expect, test } from "bun:test";
import { StoredPolicy } from "./stored-policy.ts";

const CODE = "QK7P-92XD-LM4T";
const ANSWERS = 1_100;

/** A caller that has read a code in private data, and then more answers than are kept. */
async function flooded(label: "private" | "untrusted"): Promise<StoredPolicy> {
  const policy = new StoredPolicy({ rules: [{ argument: "any", from: label, verdict: "ask" }] });
  if (label === "private") await policy.reads("read_account", { note: CODE });
  else await policy.reads("read_mail", { body: CODE });
  for (let at = 0; at < ANSWERS; at += 1) {
    policy.now += 1;
    await policy.reads("list_contacts", { contacts: [{ name: "Ann", email: `ann${at}@acme.test` }] });
  }
  return policy;
}

describe("fingerprints that other answers have displaced", () => {
  test("of private data: what tells something and has no origin asks, words that tell nothing do not", async () => {
    const policy = await flooded("private");
    expect(await policy.asks("send_mail", { to: [], body: CODE })).toBe(true);
    expect(await policy.asks("send_mail", { to: [], body: "thanks" })).toBe(false);
  });

  test("of private data: what the user asked for passes", async () => {
    const policy = await flooded("private");
    await policy.isAsked(`Look ${CODE} up`);
    expect(await policy.asks("send_mail", { to: [], body: CODE })).toBe(false);
  });

  test("of private data: what the caller writes then is not from untrusted text", async () => {
    const policy = await flooded("private");
    await policy.writes("keep_note", { text: "Ask Halvorsen about the delivery of the turbines" });
    const { stored } = await policy.reads("list_notes", {
      notes: ["Ask Halvorsen about the delivery of the turbines"],
    });
    expect(stored).toEqual([]);
  });

  test("of untrusted text: destinations without an origin ask", async () => {
    const policy = await flooded("untrusted");
    expect(await policy.asks("send_mail", { to: ["eve@elsewhere.test"], body: "hi" })).toBe(true);
  });
});
