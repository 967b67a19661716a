import { ID, type RawStream, withToken } from "./stream-grammar.ts";
import { type Outcome, UNREADABLE } from "./stream-player.ts";
import {
  readStrictly,
  type StrictReading,
  type StrictRequest,
  TAB_AFTER_FRAMING,
  WRONG_HOST,
} from "./strict-reading.ts";

/** What the front did, and what is expected of it. */
interface Compared {
  readonly stream: RawStream;
  readonly reading: StrictReading;
  readonly fastify: Outcome;
  readonly front: Outcome;
}

interface ListedDifference {
  readonly reason: string;
  applies(compared: Compared): boolean;
}

/** Each allows one kind of difference; anything else fails the test. */
const DIFFERENCES: readonly ListedDifference[] = [
  {
    reason:
      "fastify runs what no strict reader finds: after LF or CR alone before a request line, with chunk extensions that are none, in HTTP/1.0 with chunks",
    applies: ({ stream, fastify }) => violationOf(stream, fastify)?.startsWith(EXTRA_CALLS) === true,
  },
  {
    reason: "the front refuses what the grammar does not allow, and ends",
    applies: (compared) => compared.reading.end !== "" && refusesAt(compared, compared.reading.requests.length),
  },
  {
    reason:
      "the front refuses chunk extensions and trailers, which other readers read differently; whole URLs without a host; a tab after a length or coding, and sizes of chunks with more than 16 digits, which no client sends",
    applies: (compared) =>
      compared.reading.requests.some((request, at) => isUnwanted(request) && refusesAt(compared, at)),
  },
  {
    reason: "the front reads a length with any number of leading zeros",
    applies: ({ reading, fastify }) =>
      fastify.answers.at(-1) === "400 MALFORMED_REQUEST" &&
      reading.requests[fastify.answers.length - 1]?.unusual.includes("leading zeros of a length") === true,
  },
  {
    reason:
      "fastify ends the connection sooner: after an early refusal whose body has arrived in the meantime, and, without the answers to calls that run, when garbage follows such a refusal",
    applies: ({ fastify, front }) =>
      !fastify.isOpen && isStart(fastify, front) && (endsEarly(fastify) || hasLostAnswers(fastify)),
  },
  {
    reason:
      "fastify takes the end of a client's sending for its disconnect sooner or later, the front at once: it reads nothing more",
    applies: ({ stream, fastify, front }) =>
      stream.end === "half-close" &&
      ([...fastify.entries, ...front.entries].some(isCancelled) || isStart(front, fastify) || isStart(fastify, front)),
  },
  {
    reason: "fastify sends the last line of an early answer to HEAD only when the request's body has ended",
    applies: ({ fastify }) => fastify.answers.some((answer) => answer.startsWith(UNREADABLE)),
  },
];

const isCancelled = (entry: string): boolean => entry.includes("CANCELLED");

/** The answers of the first are the beginning of the other's. */
const isStart = ({ answers }: Outcome, other: Outcome): boolean =>
  answers.every((answer, at) => answer === other.answers[at]);

function isUnwanted({ unusual, sizes, target }: StrictRequest): boolean {
  const hasNoHost = /^https?:\/\/(?:[/?#]|$)/i.test(target);
  return hasNoHost || UNWANTED.some((one) => unusual.includes(one)) || sizes.some((size) => size.length > DIGITS_MAX);
}

const UNWANTED = ["chunk extension", "trailer", TAB_AFTER_FRAMING];

/** The last answer refuses a request for a route or method that does not exist. */
const endsEarly = ({ answers }: Outcome): boolean => /^40[45]\b/.test(answers.at(-1) ?? "");

const hasLostAnswers = (outcome: Outcome): boolean =>
  successesIn(outcome) < outcome.ran.length || outcome.entries.some(isCancelled);

const successesIn = ({ answers }: Outcome): number => answers.filter((answer) => answer === "200 success").length;

const DIGITS_MAX = 16;

/** The front answers as fastify does up to this request, then refuses it and ends. */
function refusesAt({ fastify, front }: Compared, at: number): boolean {
  if (at === -1 || front.isOpen || front.answers.length > at + 1) return false;
  const before = front.answers.slice(0, at);
  return before.join() === fastify.answers.slice(0, at).join() && front.answers.slice(at).every(isRefusal);
}

const isRefusal = (answer: string): boolean => /^[45]/.test(answer);

const EXTRA_CALLS = "calls ran that no strict reader finds";

/** Returns what is wrong with the front's outcome; undefined when it is right. */
export function differenceOf(stream: RawStream, fastify: Outcome, front: Outcome): string | undefined {
  const compared = { stream, reading: readStrictly(withToken(stream.text)), fastify, front };
  if (isSame(fastify, front) || bothRefuse(fastify, front)) return undefined;
  return DIFFERENCES.some((difference) => difference.applies(compared)) ? undefined : "another outcome";
}

/** Returns what no server may do with this stream, whatever another one does with it. */
export function violationOf(stream: RawStream, outcome: Outcome): string | undefined {
  if (outcome.isHung) return "the connection neither ends nor answers";
  const unreadable = outcome.answers.find((answer) => answer.startsWith(UNREADABLE));
  if (unreadable !== undefined) return unreadable;
  const may = marksOf(readStrictly(withToken(stream.text)));
  const extra = outcome.ran.filter((mark) => !may.delete(mark));
  if (extra.length > 0) return `${EXTRA_CALLS}: ${extra.join(" ")}`;
  const answered = successesIn(outcome);
  if (outcome.ran.length > answered && stream.end === "probe")
    return `${outcome.ran.length - answered} calls ran unanswered`;
  // The end of a client's sending may be its disconnect.
  if (stream.end === "half-close" && outcome.entries.some(isCancelled)) return undefined;
  const missing = stream.plain.filter((mark) => !outcome.ran.includes(mark));
  return missing.length > 0 ? `plain calls did not run: ${missing.join(" ")}` : undefined;
}

/** Each mark occurs once in a stream, unless bytes were repeated: then the second one is a call of its own. */
function marksOf({ requests }: StrictReading): Marks {
  const marks = new Marks();
  for (const { content, unusual } of requests) {
    if (unusual.includes(WRONG_HOST)) continue;
    const at = content.indexOf(`"mark":"${ID}`);
    if (at !== -1) marks.add(content.slice(at + 8 + ID.length).split('"')[0] ?? "");
  }
  return marks;
}

class Marks {
  readonly #counts = new Map<string, number>();

  add(mark: string): void {
    this.#counts.set(mark, (this.#counts.get(mark) ?? 0) + 1);
  }

  /** Takes one of these marks; false when there is none left. */
  delete(mark: string): boolean {
    const count = this.#counts.get(mark) ?? 0;
    this.#counts.set(mark, count - 1);
    return count > 0;
  }
}

function isSame(one: Outcome, other: Outcome): boolean {
  return JSON.stringify(seen(one)) === JSON.stringify(seen(other));
}

/** Without `100 Continue`, which a server may leave out when the body is there already. */
function seen({ answers, heads, isOpen, ran, entries }: Outcome): unknown {
  return [answers, heads, isOpen, ran, entries];
}

/**
 * The same calls ran and were answered; then both refuse, or end the connection. What is refused by a parser has no audit entry,
 * what is refused by a guard has one.
 */
function bothRefuse(one: Outcome, other: Outcome): boolean {
  if (one.isOpen || other.isOpen || one.ran.join() !== other.ran.join()) return false;
  if (allowedIn(one).join() !== allowedIn(other).join()) return false;
  const count = Math.min(one.answers.length, other.answers.length);
  const differs = Array.from({ length: count }, (_, at) => at).find((at) => one.answers[at] !== other.answers[at]);
  const from = Math.max(0, Math.min(differs ?? count, count - 1));
  return [...one.answers.slice(from), ...other.answers.slice(from)].every(isRefusal);
}

const allowedIn = ({ entries }: Outcome): readonly string[] => entries.filter((entry) => entry.startsWith("ALLOWED"));

/**
 * Returns what is wrong with the outcome of a stream that arrived in two parts. A refusal that was sent before the rest of its
 * request arrived may end the connection, so that what follows does not count.
 */
export function splitDifferenceOf(whole: Outcome, split: Outcome): string | undefined {
  if (isSame(whole, split)) return undefined;
  if (bothRefuse(whole, split)) return undefined;
  const isPrefix = split.answers.every((answer, at) => answer === whole.answers[at] || isRefusal(answer));
  const hasRefused = split.answers.some(isRefusal);
  const runs = split.ran.every((mark) => whole.ran.includes(mark));
  return isPrefix && hasRefused && runs && !split.isOpen ? undefined : "another outcome than the whole";
}
