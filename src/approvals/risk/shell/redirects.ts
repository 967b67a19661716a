import type { Redirection, Word } from "unbash";
import type { Opened } from "./invocation.ts";
import { textOf, UNKNOWN, type VariableLookup } from "./word.ts";

/** What redirections open, and the texts that come in through them. */
export interface Redirected {
  readonly opened: readonly Opened[];
  readonly input: readonly string[];
  /** Whether every one of them has its target. */
  readonly isWhole: boolean;
}

/** Each target is read with every one of the lookups. */
export function readRedirects(redirects: readonly Redirection[], lookups: readonly VariableLookup[]): Redirected {
  const opened: Opened[] = [];
  const input: string[] = [];
  let isWhole = true;
  for (const redirect of redirects) {
    const { type } = redirect;
    if (type === "HereDoc") input.push(redirect.body.text);
    else if (redirect.target === undefined) isWhole = false;
    else if (type === "HereString") input.push(textOf(redirect.target, lookups[0] ?? (() => UNKNOWN)));
    else if (!isDescriptor(redirect.operator, redirect.target)) {
      const writes = redirect.operator !== "<" && redirect.operator !== "<&";
      const { target } = redirect;
      opened.push(...lookups.map((lookup) => ({ path: textOf(target, lookup), writes })));
    }
  }
  return { opened, input, isWhole };
}

/** Whether it is where a program reads from. */
export function isInput(redirect: Redirection): boolean {
  return redirect.type !== "Redirect" || redirect.operator.startsWith("<");
}

/** `2>&1`, `<&-`: no file. */
function isDescriptor(operator: string, target: Word): boolean {
  return /^[<>]&$/.test(operator) && /^(?:[0-9]+-?|-)$/.test(target.value);
}
