import { type Signal, useSignal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { type ApiError, request } from "./api.ts";
import { Heading, Problem } from "./parts.tsx";
import { isAway, whenBack } from "./session.ts";
import { errorOf, notify } from "./state.ts";
import { Sentence, Text } from "./text.tsx";
import { OFFLINE } from "./words.ts";

/** Parts of the pages that show what the service has recorded or consists of. */

/** Some assistive technology does not read a table that is laid out as cards as a table, unless its parts have roles. */
export const ROLE = {
  table: { role: "table" },
  group: { role: "rowgroup" },
  row: { role: "row" },
  head: { role: "columnheader" },
  cell: { role: "cell" },
} as const;

interface ColumnsProps {
  readonly titles: readonly string[];
  /** Titles of the columns whose values are aligned to the right. */
  readonly numbers?: readonly string[];
  /** Classes of columns, by their titles. */
  readonly classes?: Readonly<Record<string, string | undefined>>;
}

/** The head of a table with these columns. */
export function Columns({ titles, numbers = [], classes = {} }: ColumnsProps): VNode {
  return (
    <thead {...ROLE.group}>
      <tr {...ROLE.row}>
        {titles.map((title) => (
          <th key={title} scope="col" class={numbers.includes(title) ? "cell-number" : classes[title]} {...ROLE.head}>
            {title}
          </th>
        ))}
      </tr>
    </thead>
  );
}

/**
 * Returns a function that renders an item of a long list once: the browser does nothing for a row that is the same object as before.
 *
 * @param shown what a row shows apart from its item
 */
export function useRowsOnce<Item extends object>(
  render: (item: Item) => VNode,
  shown: readonly unknown[] = [],
): (item: Item) => VNode {
  return useMemo(() => {
    const rendered = new WeakMap<Item, VNode>();
    return (item) => {
      const row = rendered.get(item) ?? render(item);
      rendered.set(item, row);
      return row;
    };
  }, shown);
}

/** Whoever has no pointer scrolls with the keys of what has the focus. */
const FOCUSABLE = { tabIndex: 0 } as const;

/** A table of figures, which scrolls sideways where the page is narrow. */
export function Scrolling({
  label,
  children,
}: {
  readonly label: string;
  readonly children: ComponentChildren;
}): VNode {
  return (
    <section class="table-scroll" aria-label={label} {...FOCUSABLE}>
      {children}
    </section>
  );
}

interface SectionProps {
  readonly id: string;
  readonly title: string;
  readonly children: ComponentChildren;
}

export function Section({ id, title, children }: SectionProps): VNode {
  return (
    <section aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>{title}</h2>
      {children}
    </section>
  );
}

/** A row of `Facts` with a text from outside; none when it is not a text. */
export function codeRow(name: string, value: unknown): readonly [string, VNode] | undefined {
  if (typeof value !== "string") return undefined;
  return [
    name,
    <code key={name}>
      <Text value={value} max={300} />
    </code>,
  ];
}

export function Names({ names, none }: { readonly names: readonly string[]; readonly none?: string }): VNode {
  if (names.length === 0 && none !== undefined) return <span class="dim">{none}</span>;
  return (
    <ul class="names">
      {names.map((name, at) => (
        <li key={at}>
          <code>
            <Text value={name} max={120} />
          </code>
        </li>
      ))}
    </ul>
  );
}

/** A command for a terminal, with a button that copies it. */
export function Command({ value, label }: { readonly value: string; readonly label: string }): VNode {
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(value);
      notify("done", "Copied.");
    } catch {
      notify("problem", "The browser did not allow to copy. Select the command and copy it.");
    }
  };
  return (
    <div class="command">
      <code>{value}</code>
      <button type="button" aria-label={`Copy the command: ${label}`} onClick={() => void copy()}>
        Copy
      </button>
    </div>
  );
}

interface SentencesProps {
  readonly label: string;
  readonly value: unknown;
  /** Meaning of the value; undefined: it is shown as JSON. */
  readonly sentences: readonly string[] | undefined;
}

export function Sentences({ label, value, sentences = jsonLines(value) }: SentencesProps): VNode {
  return (
    <ul class="notes" aria-label={label}>
      {sentences.map((sentence) => (
        <li key={sentence}>
          <Sentence value={sentence} max={1_000} />
        </li>
      ))}
    </ul>
  );
}

/** Returns a value as lines of indented JSON. */
export function jsonLines(value: unknown): readonly string[] {
  return JSON.stringify(value, null, 2).split("\n");
}

/** State of a page's reading from the service: nothing yet, a value, or an error. */
export interface Read<Value> {
  readonly path: string;
  readonly value?: Value;
  readonly error?: ApiError;
}

/** Reads a path when the page opens, and again when it changes or `again` is called. */
export function useRead<Value>(path: string): { readonly read: Read<Value>; readonly again: () => void } {
  const state: Signal<Read<Value>> = useSignal({ path });
  const latest = useRef(0);
  const again = async (): Promise<void> => {
    latest.current += 1;
    const own = latest.current;
    // An answer to an earlier request must not replace that of a later one.
    const show = (read: Read<Value>): void => {
      if (own === latest.current) state.value = read;
    };
    try {
      show({ path, value: await request<Value>("GET", path) });
    } catch (error) {
      const problem = errorOf(error);
      const { value } = state.value;
      // While the service is away, what was read stays: the top of the page says that it may be old.
      show({ path, ...(problem.code === OFFLINE && value !== undefined && { value }), error: problem });
    }
  };
  useEffect(() => whenBack(() => state.value.error?.code === OFFLINE && void again()), [path]);
  useEffect(() => {
    state.value = { path };
    void again();
  }, [path]);
  return { read: state.value.path === path ? state.value : { path }, again: () => void again() };
}

/** Content of a page until there is a value. The title is left out where the page has its own heading. */
export function Unread({
  title,
  read,
  again,
  againText,
}: {
  readonly title?: string;
  readonly read: Read<unknown>;
  readonly again: () => void;
  readonly againText?: string;
}): VNode {
  return (
    <>
      {title !== undefined && <Heading focusKey={read.path}>{title}</Heading>}
      {read.error === undefined || isAway.value ? (
        <p class="loading" role="status">
          {isAway.value ? "Waiting for the service …" : "Reading …"}
        </p>
      ) : (
        <Problem error={read.error} onRetry={again} {...(againText !== undefined && { retryText: againText })} />
      )}
    </>
  );
}
