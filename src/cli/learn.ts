import { z } from "zod";
import { printable, printableCell } from "../core/printable.ts";
import { FIELD_ACTIONS } from "../core/types.ts";
import { type ClientOptions, connect, requestAnswer, type ServiceRequest, segment, unknownAnswer } from "./client.ts";
import { CommandError, EXIT, print } from "./output.ts";

/** `stc learn`: observes a tool's answers on a running service, and prints the output policy that they suggest. */

/** The service answers a poll earlier, when the observation has ended. Polls are not journaled. */
const POLL_SECONDS = 50;
/** Where somebody watches the number of answers. */
const POLL_SECONDS_SHOWN = 3;
/** Time for an answer beyond the poll's own. */
const POLL_MARGIN_MS = 30_000;

interface LearnOptions extends ClientOptions {
  /** Seconds. */
  readonly for: number;
  readonly answers: number;
  readonly format?: PolicyFormat;
  readonly describe?: boolean;
  /** The tool's manifest in YAML. */
  readonly apply?: string;
}

type PolicyFormat = "yaml" | "typescript";

const line = z.object({
  path: z.string().regex(/^[A-Za-z0-9_.[\]*-]{1,2048}$/),
  action: z.enum(FIELD_ACTIONS).nullable(),
  reason: z.string(),
});

const progressed = z.looseObject({
  state: z.enum(["observing", "ended"]),
  ended: z.string().nullable(),
  answersSeen: z.int(),
  answersMax: z.int(),
});

const learned = progressed.extend({
  answersFailed: z.int(),
  truncated: z.boolean(),
  proposal: z.looseObject({
    outputPolicy: z.array(line),
    unlisted: z.int(),
    hints: z.array(z.string()),
    described: z.array(z.object({ path: z.string(), schema: z.json() })),
    result: z.literal("json").optional(),
  }),
});

type Progress = z.output<typeof progressed>;
type Learned = z.output<typeof learned>;
type ProposedLine = z.output<typeof line>;

export async function learn(tool: string, options: LearnOptions): Promise<void> {
  const client = connect(options);
  const path = `/tools/${segment(tool)}/learning`;
  const ask = async <T>(schema: z.ZodType<T>, request: ServiceRequest): Promise<T> => {
    const { body } = await requestAnswer(client, request, options);
    const read = z.object({ learning: schema }).safeParse(body);
    return read.success ? read.data.learning : unknownAnswer();
  };
  const { describe = false } = options;
  const limits = { seconds: options.for, answers: options.answers, ...(describe && { describe }) };
  const started = await ask(learned, { method: "POST", path, body: JSON.stringify(limits) });
  const interrupt = interruption();
  print.error(`observing ${printableCell(tool)} for ${options.for} s or ${options.answers} answers; Ctrl-C stops`);
  try {
    const poll = (seconds: number): Promise<Progress> => {
      const timeoutMs = seconds * 1_000 + POLL_MARGIN_MS;
      return ask(progressed, { method: "GET", path: `${path}/progress?wait=${seconds}`, timeoutMs });
    };
    const last = await follow(started, poll, interrupt);
    const result = await ask(learned, { method: last.state === "observing" ? "DELETE" : "GET", path });
    if (options.apply !== undefined) await apply(options.apply, tool, result);
    if (options.json === true) return print.json(result);
    show(tool, result, options.format ?? "yaml");
  } finally {
    interrupt.close();
  }
}

async function apply(file: string, tool: string, { answersSeen, proposal }: Learned): Promise<void> {
  if (answersSeen === 0) throw new CommandError(EXIT.failed, `${file} is left as it is: no answer was observed`);
  const { applyProposal } = await import("./import/apply.ts");
  applyProposal(file, tool, proposal);
  print.error(`${file} has the proposal: read each line, then run stc check and stc reload`);
}

/** Waits until the observation has ended, or Ctrl-C is pressed. The service answers when it has ended, or after `POLL_SECONDS`. */
async function follow(
  started: Progress,
  ask: (seconds: number) => Promise<Progress>,
  interrupt: Interruption,
): Promise<Progress> {
  let state = started;
  while (state.state === "observing" && !interrupt.isPressed()) {
    progress(`${state.answersSeen} of ${state.answersMax} answers`);
    const asked = ask(process.stderr.isTTY ? POLL_SECONDS_SHOWN : POLL_SECONDS);
    // Ctrl-C leaves a poll running, whose failure does not matter.
    asked.catch(() => {});
    state = (await Promise.race([asked, interrupt.pressed])) ?? state;
  }
  progress("");
  return state;
}

function progress(text: string): void {
  if (process.stderr.isTTY) print.progress(text);
}

interface Interruption {
  isPressed(): boolean;
  /** Resolves when Ctrl-C is pressed. */
  readonly pressed: Promise<undefined>;
  close(): void;
}

function interruption(): Interruption {
  const pressed = Promise.withResolvers<undefined>();
  let isPressed = false;
  const onSignal = (): void => {
    isPressed = true;
    pressed.resolve(undefined);
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return {
    isPressed: () => isPressed,
    pressed: pressed.promise,
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
  if (proposal.result !== undefined) print.line(`${mark} each answer is JSON: let the target read it (--apply does)`);
  for (const { path, schema } of proposal.described) {
    print.line(`${mark} output${path === "" ? "" : ` at ${path}`}: ${printable(JSON.stringify(schema))}`);
  }
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
