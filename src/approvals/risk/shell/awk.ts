import { names } from "../names.ts";
import { type FilterReach, type Options, optionsOf } from "./options.ts";
import { UNKNOWN } from "./word.ts";

/** Of every awk; what else there is reads programs from files, or writes what it thinks of them to one. */
const OPTIONS: Options = {
  letters: "bcCghkMnNOPrstV",
  valued: "Fv",
  longs: ["posix", "re-interval", "csv", "version", "help", "traditional", "characters-as-bytes"],
  valuedLongs: ["field-separator", "assign"],
  stopsAtOperand: true,
};

/** `awk`: what its text does besides printing. What cannot be seen counts as starting programs. */
export function awkReach(args: readonly string[]): FilterReach {
  const { operands, unknown } = optionsOf(args, OPTIONS);
  return unknown.length > 0 ? "starts" : new Reader(operands[0] ?? "").reach();
}

/** Words behind which a slash begins a pattern; behind every other word it divides. */
const BEFORE_PATTERN = names("print printf return in else do delete case");
const HARMLESS_TARGET = /^"\/dev\/(?:stdout|stderr|null)"\s{0,16}(?:[;}\n]|$)/;
/** A file by its name, below where awk stands. */
const NEAR_TARGET = /^"(?![/~])[A-Za-z0-9_ .,@%+/-]{1,255}"\s{0,16}(?:[;}\n]|$)/;
/** `..`, or a name by which programs may be started. */
const HIDDEN_PART = /["/]\.[^/"]/;
const TARGET_CHARACTERS_MAX = 300;
const STARTS = /system|getline|[|@>]/;

class Reader {
  readonly #text: string;
  #at = 0;
  /** Of every open bracket, whether it holds the condition of a statement: a pattern may follow that. */
  readonly #brackets: boolean[] = [];
  #isCondition = false;
  /** How deep in brackets the `print` stands whose arguments are being read. */
  #printsAt: number | undefined;
  /** Whether a slash that comes now divides. */
  #afterValue = false;
  /** Whether a comma or an operator lets the statement go on in the next line. */
  #goesOn = false;
  #writes = false;
  #starts = false;
  #isUnsure = false;

  constructor(text: string) {
    this.#text = text;
  }

  reach(): FilterReach {
    if (this.#text.includes(UNKNOWN)) return "starts";
    while (this.#at < this.#text.length && !this.#starts) this.#token();
    if (this.#starts || (this.#isUnsure && STARTS.test(this.#text))) return "starts";
    return this.#writes ? "writes" : "reads";
  }

  #token(): void {
    const char = this.#text[this.#at] ?? "";
    if (char === "\n") this.#line();
    else if (/\s/.test(char)) this.#at += 1;
    else if (char === "\\") this.#at += this.#text[this.#at + 1] === "\n" ? 2 : 1;
    else if (char === "#") this.#at = this.#until("\n");
    else if (char === '"') this.#quoted();
    else if (char === "/" && !this.#afterValue) this.#pattern();
    else if (/[A-Za-z_]/.test(char)) this.#word();
    else if (/[0-9.]/.test(char)) this.#pass(1, true);
    else this.#sign(char);
  }

  #line(): void {
    if (!this.#goesOn) this.#end();
    this.#at += 1;
  }

  #end(): void {
    this.#printsAt = undefined;
    this.#afterValue = false;
    this.#goesOn = false;
  }

  #pass(length: number, isValue: boolean): void {
    this.#isCondition = false;
    this.#at += length;
    this.#afterValue = isValue;
    this.#goesOn = false;
  }

  #quoted(): void {
    const end = this.#closing(this.#at + 1, '"');
    if (end === -1) this.#starts = true;
    else this.#pass(end + 1 - this.#at, true);
  }

  /** Awks disagree on slashes and quotes in brackets: then what stands anywhere in the text counts. */
  #pattern(): void {
    const end = this.#closing(this.#at + 1, "/");
    const pattern = this.#text.slice(this.#at + 1, end);
    if (end === -1) this.#starts = true;
    else this.#pass(end + 1 - this.#at, true);
    const isOpen = pattern.lastIndexOf("[") > pattern.lastIndexOf("]");
    if (isOpen || pattern.includes("[]") || pattern.includes("[^]")) this.#isUnsure = true;
  }

  #closing(from: number, mark: string): number {
    for (let at = from; at < this.#text.length; at += 1) {
      const char = this.#text[at];
      if (char === "\\") at += 1;
      else if (char === "\n") return -1;
      else if (char === mark) return at;
    }
    return -1;
  }

  #until(mark: string): number {
    const end = this.#text.indexOf(mark, this.#at);
    return end === -1 ? this.#text.length : end;
  }

  #word(): void {
    let end = this.#at;
    while (/[A-Za-z0-9_]/.test(this.#text[end] ?? "")) end += 1;
    const word = this.#text.slice(this.#at, end);
    if (word === "system" || word === "getline") this.#starts = true;
    if (word === "print" || word === "printf") this.#printsAt = this.#brackets.length;
    // Without its brackets it is a value to some and not to others.
    if (word === "length") this.#isUnsure ||= this.#comesPattern(end);
    this.#pass(end - this.#at, !BEFORE_PATTERN.has(word));
    this.#isCondition = /^(?:if|while|for|switch)$/.test(word);
  }

  #comesPattern(from: number): boolean {
    return /^\s{0,64}\//.test(this.#text.slice(from, from + 65));
  }

  #sign(char: string): void {
    const next = this.#text[this.#at + 1] ?? "";
    if (char === "@" || (char === "|" && next !== "|")) this.#starts = true;
    else if (char === ">") this.#greater(next);
    else if (char === "(" || char === "[") {
      this.#brackets.push(this.#isCondition);
      this.#pass(1, false);
    } else if (char === ")" || char === "]") {
      const wasCondition = this.#brackets.pop() === true;
      this.#pass(1, true);
      if (wasCondition) this.#isUnsure ||= this.#comesPattern(this.#at);
    } else if (char === ";" || char === "{" || char === "}") {
      this.#end();
      this.#at += 1;
    } else if ((char === "+" || char === "-") && next === char) this.#pass(2, this.#afterValue);
    else {
      const isDouble = (char === "|" || char === "&") && next === char;
      this.#pass(isDouble ? 2 : 1, false);
      this.#goesOn = isDouble || char === ",";
    }
  }

  /** Behind `print` it names a file, unless brackets stand around it; everywhere else it compares. */
  #greater(next: string): void {
    const isAppending = next === ">";
    const redirects =
      isAppending || (next !== "=" && this.#printsAt !== undefined && this.#brackets.length === this.#printsAt);
    this.#pass(isAppending || next === "=" ? 2 : 1, false);
    if (!redirects) return;
    const target = this.#text.slice(this.#at, this.#at + TARGET_CHARACTERS_MAX).trimStart();
    if (HARMLESS_TARGET.test(target)) return;
    if (NEAR_TARGET.test(target) && !HIDDEN_PART.test(target.slice(0, target.indexOf('"', 1)))) this.#writes = true;
    else this.#starts = true;
  }
}
