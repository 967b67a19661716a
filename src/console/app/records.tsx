import { type Signal, useSignal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useEffect } from "preact/hooks";
import { type ApiError, request } from "./api.ts";
import { Heading, Problem } from "./parts.tsx";
import { errorOf } from "./state.ts";
import { Text } from "./text.tsx";

/** Parts of the pages that show what the service has recorded or consists of. */

/** A table that is laid out as cards is none for some assistive technology, unless it says so. */
export const ROLE = {
  table: { role: "table" },
  group: { role: "rowgroup" },
  row: { role: "row" },
  head: { role: "columnheader" },
  cell: { role: "cell" },
} as const;

/** The head of a table with these columns. */
export function Columns({ titles }: { readonly titles: readonly string[] }): VNode {
  return (
    <thead {...ROLE.group}>
      <tr {...ROLE.row}>
        {titles.map((title) => (
          <th key={title} scope="col" {...ROLE.head}>
            {title}
          </th>
        ))}
      </tr>
    </thead>
  );
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

/** Returns a value as lines of indented JSON. */
export function jsonLines(value: unknown): readonly string[] {
  return JSON.stringify(value, null, 2).split("\n");
}

/** What a page reads from the service: nothing yet, a value, or why there is none. */
export interface Read<Value> {
  readonly path: string;
  readonly value?: Value;
  readonly error?: ApiError;
}

/** Reads a path when the page opens, and again when it changes or `again` is called. */
export function useRead<Value>(path: string): { readonly read: Read<Value>; readonly again: () => void } {
  const state: Signal<Read<Value>> = useSignal({ path });
  const again = async (): Promise<void> => {
    try {
      const value = await request<Value>("GET", path);
      state.value = { path, value };
    } catch (error) {
      state.value = { path, error: errorOf(error) };
    }
  };
  useEffect(() => {
    state.value = { path };
    void again();
  }, [path]);
  return { read: state.value.path === path ? state.value : { path }, again: () => void again() };
}

/** What a page shows until there is a value. */
export function Unread({
  title,
  read,
  again,
}: {
  readonly title: string;
  readonly read: Read<unknown>;
  readonly again: () => void;
}): VNode {
  return (
    <>
      <Heading focusKey={read.path}>{title}</Heading>
      {read.error === undefined ? (
        <p class="loading" role="status">
          Reading …
        </p>
      ) : (
        <Problem error={read.error} onRetry={again} />
      )}
    </>
  );
}
