import { describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runStc } from "../../support/stc.ts";
import { hasTerminals, type TerminalOptions, TerminalStc } from "../../support/terminal.ts";
import { FIRST, question, SECOND, StandInApprovals, view } from "../../support/terminal-approvals.ts";
import { until } from "../../support/until.ts";

/** The blank at the end comes when the question takes answers. */
const ARMED = "[n]o: ";
const ASKED = "[n]o:";
/** What a terminal acts upon, line ends apart. */
const STEERING =
  /[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/u;

/** A service with questions, an operator's token, and terminals to answer on; all of it goes when the test is over. */
class Stand implements AsyncDisposable {
  readonly service = new StandInApprovals();
  readonly #folder = mkdtempSync(join(tmpdir(), "stc-watch-"));
  readonly #screens: TerminalStc[] = [];

  constructor(...questions: readonly ReturnType<typeof question>[]) {
    this.token = "operator.token.x";
    for (const one of questions) this.service.add(one);
  }

  set token(token: string) {
    writeFileSync(join(this.#folder, "token"), `${token}\n`, { mode: 0o600 });
  }

  get env(): Readonly<Record<string, string>> {
    return { STC_URL: this.service.url, STC_TOKEN_FILE: join(this.#folder, "token") };
  }

  /** Returns a stand whose terminal shows the first request and accepts an answer. */
  static async asking(...questions: readonly ReturnType<typeof question>[]): Promise<Stand> {
    const stand = new Stand(...questions);
    await stand.watch().shows(ARMED);
    return stand;
  }

  /** The first terminal. */
  get terminal(): TerminalStc {
    const [first] = this.#screens;
    if (first === undefined) throw new Error("no terminal was opened");
    return first;
  }

  watch(options: Partial<TerminalOptions> = {}, ...more: readonly string[]): TerminalStc {
    const screen = new TerminalStc(["approvals", "watch", ...more], { env: this.env, ...options });
    this.#screens.push(screen);
    return screen;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const screen of this.#screens) screen.close();
    await this.service.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Skipped, by name, where the machine has no pseudo-terminals. */
const onTerminal = (name: string, body: () => void): void =>
  (hasTerminals ? describe.concurrent : describe.skip)(hasTerminals ? name : `${name} (no pseudo-terminal here)`, body);
const testOnTerminal = (name: string, body: () => Promise<void>): void =>
  (hasTerminals ? test.concurrent : test.skip)(hasTerminals ? name : `${name} (no pseudo-terminal here)`, body);

const in15Minutes = () => new Date(Date.now() + 900_000).toISOString();

const once = { decision: "approve", scope: "once" };
const forSession = { decision: "approve", scope: "session" };
const no = { decision: "deny" };

onTerminal("an answer", () => {
  test.each([
    ["y", "y\r", {}, once, "approved (once)"],
    ["yes", "yes\r", {}, once, "approved (once)"],
    ["Y, with a blank", " Y \r", {}, once, "approved (once)"],
    ["a newline for Enter", "y\n", {}, once, "approved (once)"],
    ["s", "s\r", {}, forSession, "approved (session)"],
    [
      "g with its terms",
      "g runs=5, minutes=30\r",
      { options: ["cancel", "once", "bounded"] },
      { decision: "approve", scope: "bounded", grant: { runs: 5, minutes: 30 } },
      "approved (bounded)",
    ],
    ["n", "n\r", {}, no, "denied"],
    ["NO", "NO\r", {}, no, "denied"],
    ["n with a reason", "n use the staging cluster\r", {}, { ...no, reason: "use the staging cluster" }, "denied"],
    ["no with a reason after a comma", "No, läuft schon 🚀\r", {}, { ...no, reason: "läuft schon 🚀" }, "denied"],
    ["a reason with a character taken back", "n grün漢\u007fer\r", {}, { ...no, reason: "grüner" }, "denied"],
    ["a reason that holds an approval", "n yes\r", {}, { ...no, reason: "yes" }, "denied"],
    ["no taken back for y", "no\u0015y\r", {}, once, "approved (once)"],
    ["n to a high risk", "n\r", { risk: "high" }, no, "denied"],
    ["yes to a critical risk", "yes\r", { risk: "critical" }, once, "approved (once)"],
  ] as const)("%s", async (_, keys, changes, decision, said) => {
    const approval = question(changes);
    await using stand = await Stand.asking(approval);
    const { service, terminal } = stand;
    terminal.type(keys);
    await terminal.shows(`${said}: ${FIRST}`);
    expect(service.decisions).toEqual([{ id: FIRST, body: { ...decision, viewDigest: approval["viewDigest"] } }]);
  });

  test.each([
    ["Enter", "\r", {}],
    ["blanks", "   \r", {}],
    ["yep", "yep\r", {}],
    ["nope", "nope\r", {}],
    ["an arrow key and y", "\u001b[Ay\r", {}],
    ["an arrow key and n", "\u001b[An\r", {}],
    ["a look-alike of y", "у\r", {}],
    ["y taken back", "y\u007f\r", {}],
    ["s where it is not offered", "s\r", { options: ["cancel", "once"] }],
    ["g without terms", "g\r", { options: ["cancel", "once", "bounded"] }],
    ["g with other terms", "g runs=all\r", { options: ["cancel", "once", "bounded"] }],
    ["g where it is not offered", "g runs=1\r", { options: ["cancel", "once"] }],
    ["yes behind more than a line holds", `${"\u007f".repeat(9)}${"n".repeat(250)}yes\r`, {}],
    ["y to a high risk", "y\r", { risk: "high" }],
    ["YES to a high risk", "YES\r", { risk: "high" }],
    ["s to a critical risk", "s\r", { risk: "critical" }],
    ["y to a risk that only the view calls high", "y\r", { view: view({ risk: "high" }) }],
    ["y to a risk that nobody names", "y\r", { risk: undefined }],
  ] as const)("%s decides nothing and asks again", async (_, keys, changes) => {
    await using stand = await Stand.asking(question(changes));
    const { terminal } = stand;
    terminal.type(keys);
    await terminal.shows("nothing is decided");
    await terminal.shows(ARMED);
    expect(stand.service.decisions).toEqual([]);
    terminal.type("n\r");
    await terminal.shows(`denied: ${FIRST}`);
  });

  test("asks again with the time that is left then", async () => {
    await using stand = new Stand(question({ decideBy: new Date(Date.now() + 58_000).toISOString() }));
    const terminal = stand.watch();
    const left = async (): Promise<number> => Number(/, (\d+) s\] Approve/.exec(await terminal.shows(ARMED))?.[1]);
    const first = await left();
    await until("another second", async () => {
      terminal.type("\r");
      return (await left()) < first || undefined;
    });
  });

  test("session is offered only when possible, and a high risk requires the whole word", async () => {
    await using stand = new Stand(question());
    const { service } = stand;
    const terminal = stand.watch();
    expect(await terminal.shows(ARMED)).toContain("Approve? [y]es / [s]ession / [n]o: ");
    terminal.type("n\r");
    await terminal.shows("denied");
    service.add(question({ id: SECOND, risk: "high", decideBy: new Date(Date.now() + 300_000).toISOString() }));
    expect(await terminal.shows(ARMED)).toContain('Approve? type "yes" / [n]o: ');
    terminal.type("n\r");
    await terminal.shows("denied");
  });
});

/** One is enough on a machine that is not busy. */
const ATTEMPTS = 20;

/** Keys must come within half a second of the question: on a busy machine they may be late, and are an answer then. */
async function early(attempt: () => Promise<"early" | "late">): Promise<void> {
  for (let count = 0; count < ATTEMPTS; count += 1) if ((await attempt()) === "early") return;
  throw new Error("what was typed at once was an answer, time and again");
}

async function wasLate(terminal: TerminalStc): Promise<boolean> {
  return (await terminal.shows(/do not count\)\r\n|approved/)).endsWith("approved");
}

async function beforeAndWhileRead(): Promise<"early" | "late"> {
  await using stand = new Stand();
  const { service } = stand;
  const terminal = stand.watch();
  terminal.type("y\ry\r");
  await terminal.shows("Watching");
  terminal.type("y\r");
  await until("the stream", () => service.streams > 0 || undefined);
  service.add(question());
  await terminal.shows(ASKED);
  terminal.type("y\r");
  if (await wasLate(terminal)) return "late";
  await terminal.shows(ARMED);
  expect(service.decisions).toEqual([]);
  terminal.type("n\r");
  await terminal.shows("denied");
  expect(service.decisions.map(({ body }) => body["decision"])).toEqual(["deny"]);
  return "early";
}

async function whileStopped(): Promise<"early" | "late"> {
  await using stand = new Stand(question());
  const { service } = stand;
  const terminal = stand.watch();
  await terminal.shows(ASKED);
  terminal.child.kill("SIGSTOP");
  terminal.type("y\r");
  terminal.child.kill("SIGCONT");
  if (await wasLate(terminal)) return "late";
  await terminal.shows(ARMED);
  expect(service.decisions).toEqual([]);
  return "early";
}

onTerminal("what is typed too early", () => {
  test("before the request and while it is being read answers nothing", () => early(beforeAndWhileRead));

  test("while the process is stopped answers nothing either", () => early(whileStopped));

  test("an answer and the keys after it answer one request", async () => {
    await using stand = await Stand.asking(question(), question({ id: SECOND, decideBy: in15Minutes() }));
    const { service, terminal } = stand;
    terminal.type("y\ry\ry\r");
    await terminal.shows(`approved (once): ${FIRST}`);
    await terminal.shows(SECOND);
    await terminal.shows(ARMED);
    expect(service.decisions.map(({ id }) => id)).toEqual([FIRST]);
  });
});

onTerminal("leaving decides nothing", () => {
  test.each([
    ["Ctrl-C", "\u0003", 130],
    ["Ctrl-C behind a yes", "y\u0003", 130],
    ["Ctrl-D", "\u0004", 0],
    ["Ctrl-D behind a yes", "yes\u0004", 0],
  ] as const)("%s", async (_, keys, code) => {
    await using stand = await Stand.asking(question());
    const { service, terminal } = stand;
    terminal.type(keys);
    expect(await terminal.ends()).toBe(code);
    expect(service.decisions).toEqual([]);
  });

  test.each([
    ["SIGTERM", 143],
    ["SIGINT", 130],
    ["SIGHUP", 129],
  ] as const)("%s", async (signal, code) => {
    await using stand = await Stand.asking(question());
    const { service, terminal } = stand;
    terminal.type("y");
    terminal.child.kill(signal);
    expect(await terminal.ends()).toBe(code);
    expect(service.decisions).toEqual([]);
  });

  test("a terminal that is closed", async () => {
    await using stand = await Stand.asking(question());
    const { service, terminal } = stand;
    terminal.type("y");
    terminal.child.terminal?.close();
    await terminal.child.exited;
    expect(service.decisions).toEqual([]);
  });

  test("and the terminal is restored", async () => {
    await using stand = new Stand(question());
    const terminal = stand.watch({ through: ["bash", "-c", '"$0" "$@"; stty -a'] });
    await terminal.shows(ARMED);
    terminal.type("\u0003");
    expect((await terminal.shows(/ echoke /)).split(/\s+/)).toEqual(expect.arrayContaining(["isig", "icanon", "echo"]));
    expect(stand.service.decisions).toEqual([]);
  });

  test("Ctrl-C while nothing is pending", async () => {
    await using stand = new Stand();
    const { service } = stand;
    const terminal = stand.watch();
    await until("the stream", () => service.streams > 0 || undefined);
    terminal.type("\u0003");
    expect(await terminal.ends()).toBe(130);
  });
});

onTerminal("without a terminal", () => {
  test("it is refused", async () => {
    await using stand = new Stand(question());
    const { service } = stand;
    const ended = await runStc(["approvals", "watch"], { env: stand.env, stdin: "y\nyes\n" });
    expect(ended).toEqual({ code: 64, out: "", err: expect.stringContaining("must be a terminal") });
    expect(service.requests).toEqual([]);
  });

  test.each([
    ["stdin that is piped", `printf 'y\\n' | "$0" "$@"`],
    ["stdout that is piped", `"$0" "$@" | cat; exit "\${PIPESTATUS[0]}"`],
  ])("%s, on a terminal", async (_, script) => {
    await using stand = new Stand(question());
    const { service } = stand;
    const screen = stand.watch({ through: ["bash", "-c", script] });
    await screen.shows("must be a terminal");
    expect(await screen.ends()).toBe(64);
    expect(service.decisions).toEqual([]);
  });

  test("a token from standard input is refused too", async () => {
    await using stand = new Stand();
    const screen = stand.watch({}, "--token-file", "-");
    await screen.shows("put the token into a file");
    expect(await screen.ends()).toBe(64);
  });
});

onTerminal("a question that is over", () => {
  test.each(["approved", "denied", "expired", "cancelled"])(
    "%s elsewhere withdraws the request, and the next one is shown",
    async (state) => {
      await using stand = await Stand.asking(question());
      const { service, terminal } = stand;
      terminal.type("y");
      service.set(FIRST, { state });
      service.tell(`approval.${state}`, FIRST);
      await terminal.shows(`withdrawn: ${FIRST}: ${state} elsewhere`);
      terminal.type("\r");
      service.add(question({ id: SECOND }));
      await terminal.shows(SECOND);
      await terminal.shows(ARMED);
      expect(service.decisions).toEqual([]);
    },
  );

  test("by time, without an event", async () => {
    await using stand = new Stand(question({ decideBy: new Date(Date.now() + 700).toISOString() }));
    const { service } = stand;
    const terminal = stand.watch();
    await terminal.shows(ASKED);
    await terminal.shows(`withdrawn: ${FIRST}: nobody decided in time`);
    expect(service.decisions).toEqual([]);
  });

  test("while the events were interrupted", async () => {
    await using stand = await Stand.asking(question());
    const { service, terminal } = stand;
    service.set(FIRST, { state: "denied" });
    service.cutStreams();
    await terminal.shows(`withdrawn: ${FIRST}: denied elsewhere`);
    expect(service.resumed).toEqual([null, "101"]);
  });

  test("other people's decisions on other requests leave it alone", async () => {
    await using stand = await Stand.asking(question());
    const { service, terminal } = stand;
    service.tell("approval.denied", SECOND);
    service.tell("grant.revoked", FIRST);
    service.tell("approval.requested", FIRST);
    terminal.type("y\r");
    await terminal.shows(`approved (once): ${FIRST}`);
    expect(terminal.out).not.toContain("withdrawn");
  });
});

onTerminal("the service says no", () => {
  test.each([
    ["somebody was faster", 409, "APPROVAL_CONSUMED"],
    ["one's own question", 403, "PERMISSION_DENIED"],
  ])("%s: reported, and not asked again", async (_, status, code) => {
    await using stand = new Stand(question());
    const { service } = stand;
    service.refusal = { status, code, message: "No." };
    const terminal = stand.watch();
    await terminal.shows(ARMED);
    terminal.type("y\r");
    await terminal.shows(`not decided: ${FIRST}: ${code}: No.`);
    service.add(question({ id: SECOND }));
    await terminal.shows(`approval        ${SECOND}`);
  });

  test("another view: it is shown again", async () => {
    const [first, second] = [question(), question({ view: view({ notes: ["another branch"] }) })];
    await using stand = new Stand(first);
    const { service } = stand;
    service.refusal = { status: 409, code: "APPROVAL_MISMATCH", message: "Look again." };
    const terminal = stand.watch();
    await terminal.shows(ARMED);
    service.set(FIRST, second);
    terminal.type("y\r");
    await terminal.shows("APPROVAL_MISMATCH");
    service.refusal = undefined;
    await terminal.shows(ARMED);
    terminal.type("y\r");
    await terminal.shows("approved");
    expect(service.decisions.map(({ body }) => body["viewDigest"])).toEqual([
      first["viewDigest"],
      second["viewDigest"],
    ]);
  });

  test("to the token, at the start or later", async () => {
    await using stand = new Stand();
    stand.token = "stale";
    const early = stand.watch();
    await early.shows("UNAUTHENTICATED");
    expect(await early.ends()).toBe(1);
    stand.token = "operator.token.x";
    stand.service.add(question());
    const later = stand.watch();
    await later.shows(ARMED);
    stand.token = "stale";
    stand.service.cutStreams();
    expect(await later.ends()).toBe(1);
    expect(stand.service.decisions).toEqual([]);
  });

  test("a request without a view is not shown for a decision", async () => {
    await using stand = new Stand(question({ view: undefined }));
    const terminal = stand.watch();
    await terminal.shows("not permitted to see the view");
    expect(await terminal.ends()).toBe(1);
    expect(stand.service.decisions).toEqual([]);
  });

  test("to a request that may not be decided: not asked", async () => {
    await using stand = await Stand.asking(question({ decidable: false }), question({ id: SECOND }));
    const { terminal } = stand;
    expect(terminal.out).not.toContain(FIRST);
  });
});

/** As a policy of two stages stands when so many have voted. */
function quorumOf(have: number, more: Readonly<Record<string, unknown>> = {}) {
  const stages = [
    {
      name: "team",
      state: have === 0 ? "open" : "complete",
      have,
      needed: 1,
      voters: [{ sub: "anna", iss: "i" }].slice(0, have),
    },
    { name: "secops", state: have === 0 ? "later" : "open", have: 0, needed: 1, voters: [] },
  ];
  const missing = [{ policy: "prod", stage: have === 0 ? "team" : "secops", have: 0, needed: 1 }];
  return { reasonRequired: "never", policies: [{ name: "prod", stages }], missing, ...more };
}

onTerminal("a request that offers to vouch for values", () => {
  const source = { tool: "read_mail", traceId: "01-a", field: "body", at: "2026-11-30T09:15:07.412Z" };
  const offering = (changes: object = {}) =>
    question({
      canDecide: { approve: true, deny: true, vouch: true },
      view: view({
        dataFlow: { carried: ["untrusted"], arguments: [{ argument: "to[]", sources: [source] }] },
        vouchable: [
          { argument: "to[]", value: "bob@partner.test" },
          { argument: "to[]", value: "\u0435ve@partner.test" },
          { argument: "cc[]", value: "bob@partner.test" },
        ],
      }),
      ...changes,
    });
  const [bob, eve] = ["bob@partner.test", "\u0435ve@partner.test"];

  test.each([
    [
      "for one of them",
      "y v\r",
      "1\r",
      {},
      { scope: "once", vouch: [bob] },
      "approved (once), with 1 value vouched for",
    ],
    [
      "for both, for the session",
      "s vouch\r",
      "2, 1\r",
      {},
      { scope: "session", vouch: [eve, bob] },
      "approved (session), with 2 values vouched for",
    ],
    [
      "at high risk",
      "yes v\r",
      "2\r",
      { risk: "high" },
      { scope: "once", vouch: [eve] },
      "approved (once), with 1 value vouched for",
    ],
    ["for none after all", "y v\r", "none\r", {}, { scope: "once" }, "approved (once)"],
    ["for none when nobody says so", "y\r", "", {}, { scope: "once" }, "approved (once)"],
  ] as const)("%s", async (_, keys, numbers, changes, decision, said) => {
    const approval = offering(changes);
    await using stand = await Stand.asking(approval);
    const { service, terminal } = stand;
    terminal.type(keys);
    if (numbers !== "") {
      const shown = await terminal.shows("or none: ");
      expect(shown).toContain('1) "bob@partner.test" (');
      expect(shown).toContain("in ASCII: \\u{435}ve@partner.test");
      terminal.type(numbers);
    }
    await terminal.shows(`${said}: ${FIRST}`);
    const { viewDigest } = approval;
    expect(service.decisions).toEqual([{ id: FIRST, body: { decision: "approve", ...decision, viewDigest } }]);
  });

  test.each([
    ["y v where nothing is offered", question(), "y v\r"],
    ["y v for whoever may not vouch", offering({ canDecide: { approve: true } }), "y v\r"],
    ["y v at high risk", offering({ risk: "high" }), "y v\r"],
    ["v alone", offering(), "v\r"],
  ] as const)("%s decides nothing", async (_, approval, keys) => {
    await using stand = await Stand.asking(approval);
    stand.terminal.type(keys);
    await stand.terminal.shows("nothing is decided");
    expect(stand.service.decisions).toEqual([]);
  });

  test("a number that is not offered asks again", async () => {
    await using stand = await Stand.asking(offering());
    const { service, terminal } = stand;
    terminal.type("y v\r");
    await terminal.shows("or none: ");
    terminal.type("1 3\r");
    await terminal.shows("That is not an answer; nothing is decided.");
    await terminal.shows("or none: ");
    expect(service.decisions).toEqual([]);
  });
});

onTerminal("a question that wants an answer", () => {
  test.each([
    ["in words", {}, "Your answer: ", "the one in Graz, grün\r", "the one in Graz, grün"],
    ["by its number", { choices: ["blue", "green"] }, 'one of 1) "blue" 2) "green": ', "2\r", "green"],
    ["by its name", { choices: ["blue", "green"] }, 'one of 1) "blue" 2) "green": ', "blue\r", "blue"],
    ["where numbers are the choices", { choices: ["2", "1"] }, 'one of "2" "1": ', "1\r", "1"],
    ["where one poses as two", { choices: ['no" 2) "yes', "b"] }, '1) "no\\u{22} 2) \\u{22}yes" 2) "b": ', "2\r", "b"],
  ] as const)("%s", async (_title, answer, prompt, keys, said) => {
    await using stand = await Stand.asking(question({ answer, options: ["cancel", "once"] }));
    const { terminal } = stand;
    terminal.type("y\r");
    await terminal.shows(prompt);
    terminal.type(keys);
    await terminal.shows(`approved (once): ${FIRST}`);
    expect(stand.service.decisions[0]?.body).toMatchObject({ decision: "approve", answer: said });
  });

  test.each([
    ["nothing", {}, "  \r", "the one\r", "the one"],
    ["what is not a choice", { choices: ["blue", "green"] }, "red\r", "1\r", "blue"],
  ] as const)("%s is not an answer, and it asks again", async (_title, answer, unclear, clear, said) => {
    await using stand = await Stand.asking(question({ answer, options: ["cancel", "once"] }));
    const { terminal } = stand;
    terminal.type("y\r");
    await terminal.shows(/Your answer.*: $/);
    terminal.type(unclear);
    await terminal.shows("nothing is decided");
    await terminal.shows(/Your answer.*: $/);
    expect(stand.service.decisions).toEqual([]);
    terminal.type(clear);
    await terminal.shows(`approved (once): ${FIRST}`);
    expect(stand.service.decisions[0]?.body).toMatchObject({ answer: said });
  });

  test("and a denial needs none", async () => {
    await using stand = await Stand.asking(question({ answer: {} }));
    const { terminal } = stand;
    terminal.type("n\r");
    await terminal.shows(`denied: ${FIRST}`);
    expect(stand.service.decisions[0]?.body).toEqual({ decision: "deny", viewDigest: expect.any(String) });
  });
});

onTerminal("APR-33: a question of several stages", () => {
  test("shows votes, says what is missing, and is not asked of the same person again", async () => {
    await using stand = new Stand(question({ quorum: quorumOf(0) }));
    const because = "You have already approved this.";
    stand.service.counted = { quorum: quorumOf(1), decidable: false, canDecide: { because } };
    const terminal = stand.watch();
    expect(await terminal.shows(ARMED)).toContain("prod, team: 0 of 1, open");
    terminal.type("y\r");
    await terminal.shows(`counted: ${FIRST} still needs prod, secops: 0 of 1`);
    stand.service.add(question({ id: SECOND }));
    await terminal.shows(SECOND);
    expect(stand.service.decisions).toHaveLength(1);
  });

  test("is asked when a vote elsewhere opens the watcher's stage", async () => {
    await using stand = new Stand(question({ quorum: quorumOf(0), decidable: false }));
    const terminal = stand.watch();
    await until("the stream", () => stand.service.streams > 0 || undefined);
    stand.service.set(FIRST, { quorum: quorumOf(1), decidable: true });
    stand.service.tell("approval.voted", FIRST);
    expect(await terminal.shows(ARMED)).toContain('prod, team: 1 of 1, complete ("anna")');
  });

  test("asks for the reason where a policy requires one", async () => {
    await using stand = await Stand.asking(question({ quorum: quorumOf(0, { reasonRequired: "deny" }) }));
    const { terminal } = stand;
    terminal.type("n\r");
    await terminal.shows("A policy requires a reason: ");
    terminal.type("\r");
    await terminal.shows("A policy requires a reason: ");
    terminal.type("not on a friday\r");
    await terminal.shows(`denied: ${FIRST}`);
    expect(stand.service.decisions[0]?.body).toMatchObject({ decision: "deny", reason: "not on a friday" });
  });
});

onTerminal("the last lines before the prompt show what is decided", () => {
  /** What is on the last lines, of the view alone. */
  async function lastLines(changes: Parameters<typeof view>[0], count: number): Promise<readonly string[]> {
    await using stand = new Stand(question({ view: view(changes) }));
    const terminal = stand.watch();
    const lines = (await terminal.shows(ARMED)).split("\r\n");
    return lines.slice(-count - 1, -1);
  }

  test("command, directory and risk", async () => {
    expect(await lastLines({ reason: { untrusted: true, text: "safe" } }, 6)).toEqual([
      "command:",
      '  [0] "/usr/bin/ledger"',
      '  [1] "set"',
      '  [2] "--limit=5"',
      'workingDir      "/srv/ledger"',
      "risk            medium",
    ]);
  });

  test("the change of a file, shown once next to the new content", async () => {
    const target = { system: "workspace", path: "@p/a", diff: ["@@ -0,0 +1 @@", "+hello"], content: "hello" };
    const args = { path: "@p/a", content: "hello" };
    const lines = await lastLines({ command: undefined, workingDir: undefined, target, arguments: args }, 200);
    expect(lines.slice(-5)).toEqual([
      'path            "@p/a"',
      "diff:",
      '  [0] "@@ -0,0 +1 @@"',
      '  [1] "+hello"',
      "risk            medium",
    ]);
    expect(lines.filter((line) => line.includes("hello"))).toHaveLength(2);
    expect(lines).toContain("  content: (as in target)");
  });

  test("the message, or the arguments", async () => {
    const none = { command: undefined, workingDir: undefined };
    expect(await lastLines({ ...none, message: { id: 7 } }, 3)).toEqual([
      "message:",
      "  id: 7",
      "risk            medium",
    ]);
    expect(await lastLines(none, 3)).toEqual(["arguments:", "  limit: 5", "risk            medium"]);
  });

  test("on one page, though the rest is longer than the terminal", async () => {
    await using stand = new Stand(question());
    const terminal = stand.watch({ rows: 20 });
    await terminal.shows("Enter continues -- ");
    terminal.type("\r");
    const page = await terminal.shows(ARMED);
    for (const text of ["command:", '"--limit=5"', "workingDir ", "risk "]) expect(page).toContain(text);
  });

  test("and the number of further requests is shown", async () => {
    await using stand = new Stand(question(), question({ id: SECOND, decideBy: in15Minutes() }));
    const terminal = stand.watch();
    expect(await terminal.shows(ARMED)).toContain("(1 more after this one)");
    terminal.type("n\r");
    await terminal.shows(`denied: ${FIRST}`);
    expect(await terminal.shows(ARMED)).not.toContain("more after");
  });
});

testOnTerminal("every field of a hostile question prints literally, and stands behind our own words", async () => {
  const hostile = "\u001b[2K\rsafe\u202e\u200b\u{e0041}\u009b2J\ud800\nrisk            low";
  const all = (value: unknown): unknown => {
    if (typeof value === "string") return hostile;
    if (Array.isArray(value)) return value.map(all);
    if (typeof value !== "object" || value === null) return value;
    return {
      ...Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, all(inner)])),
      [hostile]: hostile,
    };
  };
  const shown = all(
    view({ reason: { untrusted: true, text: "x" }, extra: { deep: ["x"] }, files: { a: "x" } }),
  ) as Record<string, unknown>;
  const { id, state, decideBy, planDigest, viewDigest, options } = question({ view: shown });
  await using stand = new Stand({
    ...(all(question()) as ReturnType<typeof question>),
    id,
    state,
    decideBy,
    planDigest,
    viewDigest,
    options,
    view: shown,
  });
  const terminal = stand.watch({ columns: 60 });
  const out = await terminal.shows(ARMED);
  expect(out).not.toMatch(STEERING);
  expect(out.split("\r\n").filter((line) => line.startsWith("risk "))).toHaveLength(1);
  expect(out.replaceAll("\r\n    | ", "")).toContain(
    "\\u{1b}[2K\\u{d}safe\\u{202e}\\u{200b}\\u{e0041}\\u{9b}2J\\u{d800}",
  );
  const box = out.slice(out.indexOf("UNTRUSTED"));
  expect(box).toContain("\\u{1b}");
});

testOnTerminal("a view that does not fit is paged to its end before the question comes", async () => {
  const command = Array.from({ length: 30 }, (_, at) => `argument-${at}`);
  await using stand = new Stand(question({ view: view({ command }) }));
  const terminal = stand.watch({ rows: 20 });
  for (let pages = 1; pages < 4; pages += 1) {
    expect(await terminal.shows("Enter continues -- ")).not.toContain("Approve?");
    terminal.type("yes\r");
  }
  await terminal.shows(ARMED);
  expect(stand.service.decisions).toEqual([]);
  for (const argument of command) expect(terminal.out).toContain(`"${argument}"`);
});
