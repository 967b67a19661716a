import { quotedText } from "./headline.ts";
import { asStrings, isTable } from "./json.ts";
import { nameInSentence } from "./printable.ts";

/**
 * Says in sentences what an approver, or a reader of the audit, is told of data flow. The texts come from others: show them escaped.
 * Returns undefined when the value has another form, which is then to be shown as it is.
 */
export function dataFlowSentences(dataFlow: unknown): readonly string[] | undefined {
  if (!isTable(dataFlow)) return undefined;
  const { carried, arguments: named, before, after, stored, sources, ...others } = dataFlow;
  if (Object.keys(others).length > 0) return undefined;
  const sentences = [
    ...labelSentence("The caller has read", carried ?? before),
    ...(after === undefined || areSame(before, after) ? [] : labelSentence("After the call it has read", after)),
  ];
  sentences.push(...tablesIn(stored).map(storedSentence));
  for (const argument of tablesIn(named)) {
    const { argument: name, destination, sources: found, more } = argument;
    const what = `${nameInSentence(stringOrEmpty(name))}${destination === true ? " (a destination)" : ""}`;
    sentences.push(...sourcesInPlaces(tablesIn(found)).map((sources) => sourceSentence(what, ...sources)));
    if (typeof more === "number") sentences.push(`${what} appeared in ${more} more ${more === 1 ? "place" : "places"}`);
  }
  sentences.push(
    ...tablesIn(sources).map((source) => sourceSentence(nameInSentence(stringOrEmpty(source["argument"])), source)),
  );
  return sentences;
}

/** Says which values an approver can vouch for. */
export function vouchableSentences(vouchable: unknown): readonly string[] | undefined {
  if (!Array.isArray(vouchable)) return undefined;
  return tablesIn(vouchable).map(
    ({ argument, value }) =>
      `${nameInSentence(stringOrEmpty(argument))}: an approver can vouch for ${nameInSentence(stringOrEmpty(value))} in later calls`,
  );
}

type Table = Readonly<Record<string, unknown>>;

export function tablesIn(value: unknown): readonly Table[] {
  return Array.isArray(value) ? value.filter(isTable) : [];
}

export function stringOrEmpty(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function areSame(one: unknown, other: unknown): boolean {
  return asStrings(one).join() === asStrings(other).join();
}

function labelSentence(beginning: string, labels: unknown): readonly string[] {
  const named = asStrings(labels);
  return named.length === 0 ? [] : [`${beginning} ${named.join(" and ")} data`];
}

function storedSentence({ label, tool, traceId }: Table): string {
  return `The answer held ${stringOrEmpty(label)} text that ${stringOrEmpty(tool)} had stored; call ${stringOrEmpty(traceId)}`;
}

/** Groups sources that are the same field of answers of the same tool: each group becomes one sentence. */
function sourcesInPlaces(sources: readonly Table[]): readonly Table[][] {
  const places = Map.groupBy(sources, ({ tool, field, place, labels, trusted, part }) =>
    JSON.stringify([tool, field, place, labels, trusted, part]),
  );
  return [...places.values()];
}

/**
 * Returns a sentence such as `to (a destination) appeared in get_ticket (id: 812), field body, untrusted, on 2026-11-30 09:15 UTC;
 * call 01…`. For several answers, the sentence has the time only if it is the same for all.
 */
function sourceSentence(what: string, ...sources: readonly Table[]): string {
  const all = (name: string): readonly string[] => [
    ...new Set(sources.map((source) => stringOrEmpty(source[name])).filter((text) => text !== "")),
  ];
  const times = new Set(sources.map(timeInWords));
  const source = { ...sources[0], of: all("of").join(", ") };
  const { labels, trusted, part } = source as Table;
  const kind =
    trusted === true
      ? ", trusted"
      : asStrings(labels)
          .map((label) => `, ${label}`)
          .join("");
  const calls = all("traceId");
  const call = calls.length === 0 ? "" : `; call${calls.length === 1 ? "" : "s"} ${calls.join(", ")}`;
  const time = times.size === 1 ? [...times].join("") : "";
  return `${part === true ? "A part of " : ""}${what} appeared in ${answerInWords(source)}${kind}${time}${call}`;
}

/** Matches a plain reference to an answer, such as `id: 812, kind: bug`. Any other text could look like the rest of the sentence. */
const PLAIN_REFERENCE = /^[\w.-]+: [^\s"“”,;()]+(?:, [\w.-]+: [^\s"“”,;()]+)*$/;

/** Matches a system and the path of a field in it: `shop: public.customers.email`. */
const PLAIN_PLACE = /^[\w.-]+: [\w.-]+$/;

/** Returns which answer a source is, the field, and where its system has it: `get_ticket (id: 812), field body`. */
export function answerInWords({ tool, of, field, place }: Table): string {
  const named = stringOrEmpty(of);
  const reference = named === "" ? "" : ` (${PLAIN_REFERENCE.test(named) ? named : quotedText(named)})`;
  const where = stringOrEmpty(field) === "" ? "" : `, field ${nameInSentence(stringOrEmpty(field))}`;
  const stored = stringOrEmpty(place);
  const from = stored === "" ? "" : `, from ${PLAIN_PLACE.test(stored) ? stored : quotedText(stored)}`;
  return `${stringOrEmpty(tool)}${reference}${where}${from}`;
}

const TO_THE_MINUTE = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)[\d:.]*Z$/;

function timeInWords({ at }: Table): string {
  const [, day, time] = TO_THE_MINUTE.exec(stringOrEmpty(at)) ?? [];
  return day === undefined ? "" : `, on ${day} ${time} UTC`;
}
