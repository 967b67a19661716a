import { answerInWords, stringOrEmpty, tablesIn } from "./data-flow.ts";
import { isTable } from "./json.ts";

/** Longest value that an approver can vouch for (UTF-16 units), and most values of one decision. */
export const VOUCHED_CHARACTERS_MAX = 1_024;
export const VOUCHED_VALUES_MAX = 64;

/** A value that an approver can vouch for, and where the approver saw it. */
export interface VouchableValue {
  readonly argument: string;
  readonly value: string;
  /** The calls whose answers had the value, and the fields. */
  readonly sources: readonly ValueSource[];
}

interface ValueSource {
  readonly tool: string;
  readonly traceId: string;
  readonly field: string;
  /** The answer and the field in words, such as `get_ticket (id: 812), field body`. */
  readonly where: string;
  /** When the answer was released, in ISO 8601; empty in requests of earlier versions. */
  readonly at: string;
  /** Only a part of the value was there. */
  readonly isPart: boolean;
}

/** Reads the values that a request offers to vouch for from its view: approvers vouch for what they were shown. */
export function vouchableIn({ view }: { readonly view?: unknown }): readonly VouchableValue[] {
  const { vouchable, dataFlow } = isTable(view) ? view : {};
  const named = tablesIn(isTable(dataFlow) ? dataFlow["arguments"] : undefined);
  return tablesIn(vouchable).map(({ argument, value }) => {
    const found = named.filter((one) => one["argument"] === argument).flatMap(({ sources }) => tablesIn(sources));
    const sources = found.map((source) => ({
      tool: String(source["tool"]),
      traceId: String(source["traceId"]),
      field: String(source["field"]),
      where: answerInWords(source),
      at: stringOrEmpty(source["at"]),
      isPart: source["part"] === true,
    }));
    return { argument: String(argument), value: String(value), sources };
  });
}
