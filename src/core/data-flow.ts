import { asStrings, isTable } from "./json.ts";

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
  sentences.push(...listOf(stored).map(storedSentence));
  for (const argument of listOf(named)) {
    const { argument: name, destination, sources: found, more } = argument;
    const what = `${stringOrEmpty(name)}${destination === true ? " (a destination)" : ""}`;
    sentences.push(...listOf(found).map((source) => sourceSentence(what, source)));
    if (typeof more === "number") sentences.push(`${what} appeared in ${more} more`);
  }
  sentences.push(...listOf(sources).map((source) => sourceSentence(stringOrEmpty(source["argument"]), source)));
  return sentences;
}

/** Says which values an approver can vouch for. */
export function vouchableSentences(vouchable: unknown): readonly string[] | undefined {
  if (!Array.isArray(vouchable)) return undefined;
  return listOf(vouchable).map(
    ({ argument, value }) =>
      `${stringOrEmpty(argument)}: an approver can vouch for ${stringOrEmpty(value)} in later calls`,
  );
}

type Table = Readonly<Record<string, unknown>>;

function listOf(value: unknown): readonly Table[] {
  return Array.isArray(value) ? value.filter(isTable) : [];
}

function stringOrEmpty(value: unknown): string {
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

/** Such as `to (a destination) appeared in get_ticket (id: 812), field body, untrusted; call 01…`. */
function sourceSentence(what: string, { tool, traceId, of, field, labels, trusted, part }: Table): string {
  const reference = stringOrEmpty(of) === "" ? "" : ` (${stringOrEmpty(of)})`;
  const where = stringOrEmpty(field) === "" ? "" : `, field ${stringOrEmpty(field)}`;
  const kind =
    trusted === true
      ? ", trusted"
      : asStrings(labels)
          .map((label) => `, ${label}`)
          .join("");
  const call = stringOrEmpty(traceId) === "" ? "" : `; call ${stringOrEmpty(traceId)}`;
  return `${part === true ? "A part of " : ""}${what} appeared in ${stringOrEmpty(tool)}${reference}${where}${kind}${call}`;
}
