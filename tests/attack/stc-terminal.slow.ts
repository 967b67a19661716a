import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { hasTerminals, TerminalStc } from "../support/terminal.ts";
import { FIRST, question, SECOND, StandInApprovals, view } from "../support/terminal-approvals.ts";

/** The blank at the end comes when the question takes answers. */
const ARMED = "[n]o: ";

const closers: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

function watching(...questions: readonly ReturnType<typeof question>[]) {
  return onTerminal(["approvals", "watch"], questions);
}

function onTerminal(args: readonly string[], questions: readonly ReturnType<typeof question>[], columns = 100) {
  const folder = mkdtempSync(join(tmpdir(), "stc-terminal-"));
  writeFileSync(join(folder, "token"), "operator.token.x\n");
  const service = new StandInApprovals();
  for (const one of questions) service.add(one);
  const env = { STC_URL: service.url, STC_TOKEN_FILE: join(folder, "token") };
  const terminal = new TerminalStc(args, { env, columns });
  closers.push(
    () => terminal.close(),
    () => service.close(),
    () => rmSync(folder, { recursive: true, force: true }),
  );
  return { service, terminal };
}

describe.skipIf(!hasTerminals)("watching", () => {
  test("a view that does not match its digest is not asked about; the next one is", async () => {
    const decideBy = new Date(Date.now() + 900_000).toISOString();
    const { service, terminal } = watching(
      question({ viewDigest: "ab".repeat(32) }),
      question({ id: SECOND, decideBy }),
    );
    const before = await terminal.shows(ARMED);
    expect(before).toContain(`not shown: ${FIRST}: the view does not match its digest`);
    expect(before).not.toContain(`approval        ${FIRST}`);
    expect(before).toContain(`approval        ${SECOND}`);
    terminal.type("y\r");
    await terminal.shows(`approved (once): ${SECOND}`);
    expect(service.decisions.map(({ id }) => id)).toEqual([SECOND]);
  });

  test("an approval whose answer is about something else is not reported as one", async () => {
    const { service, terminal } = watching(question());
    service.counted = { id: SECOND };
    await terminal.shows(ARMED);
    terminal.type("y\r");
    await terminal.shows(`understand the answer of the service: ${FIRST} may or may not be decided`);
    expect(terminal.out).not.toContain("approved (");
  });

  test("a closed terminal ends it as its signal does, in the middle of a request, and decides nothing", async () => {
    const { service, terminal } = watching(question({ view: view({ notes: ["read me"] }) }));
    await terminal.shows(ARMED);
    terminal.type("y");
    await terminal.shows("y");
    terminal.child.terminal?.close();
    expect(await terminal.ends()).toBe(129);
    expect(service.decisions).toEqual([]);
  });
});

describe.skipIf(!hasTerminals)("a list", () => {
  test.each([20, 80])("on %i columns: no row can imitate another one", async (columns) => {
    const forged = `${SECOND} approved low set_limit root - set_limit on ledger `;
    const sub = `agent-7 ${forged.repeat(8)}`;
    const { terminal } = onTerminal(
      ["approvals", "list"],
      [question({ requester: { sub, iss: "i", act: [] } })],
      columns,
    );
    expect(await terminal.ends()).toBe(0);
    const lines = terminal.out.trimEnd().split("\r\n");
    expect(lines.every((line) => line.length < columns)).toBe(true);
    expect(lines.filter((line) => !line.startsWith("    | ")).map((line) => line.slice(0, 19).trim())).toEqual([
      expect.stringMatching(/^ID/),
      FIRST.slice(0, 19),
    ]);
    expect(lines.join("").replaceAll("    | ", "")).toContain(sub.trimEnd());
  });
});
