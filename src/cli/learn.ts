import { z } from "zod";
import { printable, printableCell } from "../core/printable.ts";
import { type Client, type ClientOptions, connect, requestAnswer, segment, unknownAnswer } from "./client.ts";
import { print } from "./output.ts";

/** `stc learn`: observes a tool's answers on a running service, and prints the output policy that they suggest. */

const POLL_MS = 5_000;
/** After the time is over, the service may still count it. */
const LATE_MS = 200;

interface LearnOptions extends ClientOptions {
  /** Seconds. */
  readonly for: number;
  readonly answers: number;
  readonly format?: PolicyFormat;
}

type PolicyFormat = "yaml" | "typescript";

const line = z.object({
  path: z.string().regex(/^[A-Za-z0-9_.[\]-]{1,2048}$/),
  action: z.enum(["allow", "mask", "redact"]).nullable(),
  reason: z.string(),
});

const answer = z.object({
  learning: z.looseObject({
    state: z.enum(["observing", "ended"]),
    ended: z.string().nullable(),
    answersSeen: z.int(),
    answersMax: z.int(),
    answersFailed: z.int(),
    truncated: z.boolean(),
    remainingMs: z.number(),
    proposal: z.looseObject({ outputPolicy: z.array(line), unlisted: z.int(), hints: z.array(z.string()) }),
  }),
});

type Learned = z.output<typeof answer>["learning"];
type ProposedLine = z.output<typeof line>;

export async function learn(tool: string, options: LearnOptions): Promise<void> {
  const client = connect(options);
  const path = `/tools/${segment(tool)}/learning`;
  const ask = (method: "POST" | "GET" | "DELETE", body?: object): Promise<Learned> => {
    const request = { method, path, ...(body !== undefined && { body: JSON.stringify(body) }) };
    return learned(client, request, options);
  };
  const started = await ask("POST", { seconds: options.for, answers: options.answers });
  const interrupt = interruption();
  print.error(`observing ${printableCell(tool)} for ${options.for} s or ${options.answers} answers; Ctrl-C stops`);
  try {
    const last = await follow(started, ask, interrupt);
    const result = last.state === "observing" ? await ask("DELETE") : last;
    if (options.json === true) return print.json(result);
    show(tool, result, options.format ?? "yaml");
  } finally {
    interrupt.close();
  }
}

async function learned(client: Client, request: Parameters<typeof requestAnswer>[1], options: ClientOptions) {
  const { body } = await requestAnswer(client, request, options);
  const read = answer.safeParse(body);
  return read.success ? read.data.learning : unknownAnswer();
}

/** Waits until the observation has ended, or Ctrl-C is pressed. Returns the last state. */
async function follow(
  started: Learned,
  ask: (method: "GET") => Promise<Learned>,
  interrupt: Interruption,
): Promise<Learned> {
  let state = started;
  while (state.state === "observing" && !interrupt.isPressed()) {
    progress(`${state.answersSeen} of ${state.answersMax} answers`);
    await interrupt.wait(Math.min(POLL_MS, state.remainingMs + LATE_MS));
    if (!interrupt.isPressed()) state = await ask("GET");
  }
  progress("");
  return state;
}

function progress(text: string): void {
  if (process.stderr.isTTY) print.progress(text);
}

interface Interruption {
  isPressed(): boolean;
  /** Resolves after this time, or at once when Ctrl-C is pressed. */
  wait(ms: number): Promise<void>;
  close(): void;
}

function interruption(): Interruption {
  const pressed = Promise.withResolvers<void>();
  let isPressed = false;
  const onSignal = (): void => {
    isPressed = true;
    pressed.resolve();
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return {
    isPressed: () => isPressed,
    async wait(ms) {
      const waited = Promise.withResolvers<void>();
      const timer = setTimeout(waited.resolve, ms);
      await Promise.race([waited.promise, pressed.promise]);
      clearTimeout(timer);
    },
    close() {
      process.off("SIGINT", onSignal);
      process.off("SIGTERM", onSignal);
    },
  };
}

const ENDS: Readonly<Record<string, string>> = {
  time: "the time is over",
  answers: "enough answers",
  stopped: "stopped",
  changed: "a reload changed the tool",
};

function show(tool: string, { proposal, ...state }: Learned, format: PolicyFormat): void {
  const ended = ENDS[state.ended ?? ""] ?? "stopped";
  const mark = format === "yaml" ? "#" : "//";
  const comments = [
    `${printableCell(tool)}: ${state.answersSeen} answers observed by this replica (${ended}). Read each line before you use it.`,
    ...(state.answersFailed > 0 ? [`${state.answersFailed} answers could not be observed.`] : []),
    ...(state.truncated ? ["Only a part of each large answer was observed."] : []),
    ...(proposal.unlisted > 0
      ? [`${proposal.unlisted} further fields are not listed: no plain pattern names them.`]
      : []),
    ...proposal.hints.map((hint) => `hint: ${printable(hint)}`),
  ];
  for (const comment of comments) print.line(`${mark} ${comment}`);
  for (const text of policyText(proposal.outputPolicy, format)) print.line(text);
}

/** Returns the policy as part of a manifest. Lines without a decision are comments. */
export function policyText(lines: readonly ProposedLine[], format: PolicyFormat): readonly string[] {
  const isYaml = format === "yaml";
  const written = lines.map(({ path, action, reason }) => {
    const pair = `${JSON.stringify(path)}: ${isYaml ? (action ?? "allow") : JSON.stringify(action ?? "allow")}`;
    const note = `${isYaml ? "#" : "//"} ${printable(reason)}`;
    if (isYaml) return `${action === null ? "#" : " "} ${pair}  ${note}`;
    return `  ${action === null ? "// " : ""}${pair}, ${note}`;
  });
  return isYaml ? ["outputPolicy:", ...written] : ["outputPolicy: {", ...written, "},"];
}
