/** The terms of a bounded grant in the form of the service; what is left out is as offered. */
export interface TypedTerms {
  readonly runs?: number;
  readonly minutes?: number;
  readonly arguments?: Readonly<Record<string, "equal">>;
}

export const TERMS_HINT = "runs=5,minutes=30 and same=<argument>, each at most once";

const PART = /^(runs|minutes|same)=([^=,]{1,256})$/;
const COUNT = /^[1-9]\d{0,5}$/;

/** Reads `runs=5,minutes=30,same=note`. Returns undefined for any other text. */
export function readTerms(typed: string): TypedTerms | undefined {
  const same: Record<string, "equal"> = {};
  const terms: { runs?: number; minutes?: number } = {};
  for (const part of typed.split(",")) {
    const [, key, value = ""] = PART.exec(part.trim()) ?? [];
    if (key === "same" && !Object.hasOwn(same, value)) same[value] = "equal";
    else if ((key === "runs" || key === "minutes") && COUNT.test(value) && terms[key] === undefined)
      terms[key] = Number(value);
    else return undefined;
  }
  return Object.keys(same).length === 0 ? terms : { ...terms, arguments: same };
}
