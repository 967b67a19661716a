import { effect, signal, untracked, useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Empty, Heading } from "../parts.tsx";
import { hrefOf } from "../route.ts";
import { whenBack } from "../session.ts";
import { isCommandKey, mediaSignal, navigate, type PageContent, route, tick } from "../state.ts";
import { Text } from "../text.tsx";
import { bytesText, counted, OFFLINE, timeLeft } from "../words.ts";
import { download, downloading } from "./download.ts";
import { Failed, mayLackLines, SOURCE, SourceLine } from "./fleet.tsx";
import {
  FILTERS,
  type FilterInput,
  live,
  pauseLive,
  query,
  ROWS_MAX,
  reconnectLive,
  results,
  rows,
  search,
  startLive,
  stopLive,
} from "./search.ts";
import { Story } from "./story.tsx";
import { Table } from "./table.tsx";

const storyId = (): string | undefined => route.value.rest[0];

function CallsView(): VNode {
  const id = storyId();
  useEffect(() => effect(searchAgain), []);
  useEffect(() => whenBack(() => results.value?.error?.code === OFFLINE && void search()), []);
  useEffect(() => {
    document.addEventListener("keydown", onKey);
    return () => {
      document.removeEventListener("keydown", onKey);
      stopLive();
    };
  }, []);
  const shownQuery = new URLSearchParams(query.value);
  return id === undefined ? <List /> : <Story id={id} shownQuery={shownQuery} />;
}

/** Searches whenever the URL has other filters, and follows them where calls were followed. */
function searchAgain(): void {
  const wanted = query.value;
  const isList = storyId() === undefined;
  untracked(() => {
    if (!isList) return;
    if (results.value?.query !== wanted) void search();
    if (live.value !== undefined) startLive();
  });
}

function List(): VNode {
  return (
    <div class="sheet calls">
      <header class="sheet-head">
        <Heading>Calls</Heading>
        <LiveSwitch />
        <Exports />
      </header>
      <Filters />
      <Found />
    </div>
  );
}

/** Filters that are always visible; on phones the text alone. */
const MAIN = ["text", "decision", "tool", "sub", "from"];
const isNarrow = mediaSignal("(max-width: 760px)");
/** A filter may have at most this many characters. */
const VALUE_CHARACTERS_MAX = 512;

/**
 * The form of the filters. It shows what the URL says, and keeps what somebody is typing: only a URL that the form did not make
 * itself, as of the back button, fills it again.
 */
function Filters(): VNode {
  const wanted = query.value;
  const given = new URLSearchParams(wanted);
  const main = isNarrow.value ? MAIN.slice(0, 1) : MAIN;
  const shown = main.flatMap((name) => FILTERS.find(({ param }) => param === name) ?? []);
  const hidden = FILTERS.filter((filter) => !shown.includes(filter));
  const others = hidden.filter(({ param }) => given.has(param)).length + (given.has("order") ? 1 : 0);
  const source = given.get(SOURCE);
  const form = useRef<HTMLFormElement>(null);
  const filled = useRef<string | undefined>(undefined);
  const isMoreOpen = useSignal(others > 0);
  const apply = (isAgain: boolean): void => {
    if (form.current === null) return;
    applyFilters(form.current, isAgain);
    filled.current = query.value;
  };
  useEffect(() => {
    filled.current = undefined;
  }, [isNarrow.value]);
  useEffect(() => {
    if (form.current === null || filled.current === wanted) return;
    fill(form.current, given);
    filled.current = wanted;
    isMoreOpen.value = others > 0;
  });
  return (
    <search>
      <form
        ref={form}
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          apply(true);
        }}
        onChange={() => apply(false)}
      >
        {shown.map((filter) => (
          <Field key={filter.param} filter={filter} />
        ))}
        {source !== null && <input type="hidden" name={SOURCE} value={source} />}
        <div class="filter-buttons">
          <button type="submit" class="primary">
            Search
          </button>
          {given.size > 0 && (
            <a class="button" href="#/calls">
              Clear
            </a>
          )}
        </div>
        <details
          class="more-filters"
          open={isMoreOpen.value}
          onToggle={({ currentTarget }) => {
            isMoreOpen.value = currentTarget.open;
          }}
        >
          <summary>More filters {others > 0 && <span class="dim">({others} set)</span>}</summary>
          <div class="filter-grid">
            {hidden.map((filter) => (
              <Field key={filter.param} filter={filter} />
            ))}
            <div class="field">
              <label for="filter-order">Order</label>
              <select id="filter-order" name="order">
                <option value="">newest first</option>
                <option value="oldest">oldest first</option>
              </select>
            </div>
          </div>
        </details>
      </form>
    </search>
  );
}

/** Fills the fields with the values in the URL. */
function fill(form: HTMLFormElement, given: URLSearchParams): void {
  for (const field of form.querySelectorAll<HTMLInputElement | HTMLSelectElement>("input:not([type=hidden]), select")) {
    field.value = given.get(field.name) ?? "";
  }
}

function Field({ filter }: { readonly filter: FilterInput }): VNode {
  const { param: name, label, hint, suggested, values, isChoice } = filter;
  const id = `filter-${name}`;
  return (
    <div class={`field field-${name}`}>
      <label for={id}>{label}</label>
      {isChoice === true && values !== undefined ? (
        <select id={id} name={name}>
          <option value="">any</option>
          {values.map((choice) => (
            <option key={choice} value={choice}>
              {choice.toLowerCase()}
            </option>
          ))}
        </select>
      ) : (
        <input
          id={id}
          name={name}
          placeholder={hint}
          maxLength={VALUE_CHARACTERS_MAX}
          type={name === "text" ? "search" : "text"}
          autocomplete="off"
          spellcheck={false}
          list={suggested === undefined ? undefined : `${id}-list`}
        />
      )}
      {suggested !== undefined && (
        <datalist id={`${id}-list`}>
          {suggested.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      )}
    </div>
  );
}

/**
 * Searches with the values of the form. A choice counts at once; a text when it is complete, which the browser says with Enter or
 * when the field is left. With `isAgain`, the same filters search again.
 */
function applyFilters(form: HTMLFormElement, isAgain: boolean): void {
  const params = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    if (typeof value === "string" && value.trim() !== "") params.set(name, value.trim());
  }
  const href = hrefOf("calls", [], params);
  if (isAgain && location.hash === href) void search();
  navigate(href);
}

function Found(): VNode {
  const found = results.value;
  const list = rows.value;
  if (found === undefined) return <p class="loading">Searching …</p>;
  const { error, isReading, hasMore, warnings, from, left } = found;
  const shown = { path: ["calls"], query: new URLSearchParams(query.value) };
  return (
    <>
      {error === undefined && <SourceLine answer={from} {...shown} />}
      {error !== undefined && <Failed error={error} {...shown} onRetry={() => void search()} />}
      {warnings.map((warning) => (
        <p key={warning} class="callout tone-bad">
          <Text value={warning} />
        </p>
      ))}
      {left > 0 && (
        <p class="dim left-out">
          The first {counted(left, "call")} are left out.{" "}
          <button type="button" class="link" onClick={() => void search()}>
            Back to the start
          </button>
        </p>
      )}
      <Waiting />
      {list.length > 0 && <Table list={list} isOfFleet={from.source === "fleet"} />}
      {list.length === 0 && !isReading && error === undefined && <NothingFound />}
      <footer class="table-foot">
        {isReading && <span role="status">Searching … {list.length > 0 && counted(list.length, "call")}</span>}
        {!isReading && hasMore && (error === undefined || list.length > 0) && (
          <button type="button" onClick={() => void search({ isNext: true })}>
            {moreText(list.length)}
          </button>
        )}
        {!isReading && !hasMore && list.length > 0 && (
          <span class="dim">
            {counted(left + list.length, "call")}, {mayLackLines(from) ? "others may be missing" : "all of them"}
          </span>
        )}
      </footer>
    </>
  );
}

function moreText(shown: number): string {
  if (shown === 0) return "Search further back";
  return shown < ROWS_MAX ? "Show more" : "Show the next calls instead of these";
}

function NothingFound(): VNode {
  const isFiltered = query.value !== "";
  const hasMore = results.value?.hasMore === true;
  return (
    <Empty title={isFiltered ? "No call matches" : "No call is recorded yet"}>
      <p>
        {hasMore && "The search has not reached the start of the audit yet."}
        {!hasMore && isFiltered && "Filters match exactly, except the text, which may be anywhere in the line."}
        {!hasMore && !isFiltered && "Every call has its line here, refused ones included."}
      </p>
    </Empty>
  );
}

/** New calls that are not shown while the list is paused. */
function Waiting(): VNode | null {
  const now = live.value;
  if (now === undefined || now.waiting.length === 0) return null;
  return (
    <button type="button" class="show-all" onClick={() => pauseLive(false)}>
      Show {counted(now.waiting.length, "new call")}
      {now.dropped > 0 && `; ${now.dropped} more are in the search`}
    </button>
  );
}

function LiveSwitch(): VNode {
  const now = live.value;
  void tick.value;
  if (new URLSearchParams(query.value).get("order") === "oldest") return <span class="dim live">Oldest first</span>;
  if (now === undefined) {
    return (
      <div class="live">
        <button type="button" title="Show new calls as they are recorded" onClick={startLive}>
          Follow
        </button>
      </div>
    );
  }
  const { state, isPaused } = now;
  return (
    <div class="live">
      {state.is === "live" && !isPaused && (
        <span class="live-on">
          <span class="dot" aria-hidden="true" /> Live
        </span>
      )}
      {results.value?.from.source === "fleet" && <span class="dim">of this replica</span>}
      {state.is === "live" && isPaused && <span class="dim">Paused</span>}
      {(state.is === "connecting" || state.is === "ended") && <span class="dim">Connecting …</span>}
      {state.is === "waiting" && (
        <span class="live-off">
          <span role="status">
            Not live
            {state.error.code !== OFFLINE && (
              <>
                : <Text value={state.error.message} max={120} />
              </>
            )}
          </span>
          ; next attempt in {timeLeft(state.attemptAt - Date.now())}
          <button type="button" class="link" onClick={reconnectLive}>
            Connect now
          </button>
        </span>
      )}
      <button type="button" onClick={() => pauseLive(!isPaused)}>
        {isPaused ? "Resume" : "Pause"}
      </button>
      <button type="button" class="quiet" onClick={stopLive}>
        Stop
      </button>
    </div>
  );
}

const isExportOpen = signal(false);
const FORMATS = [
  ["csv", "CSV, for spreadsheets"],
  ["jsonl", "JSONL, the lines as they are"],
  ["ocsf", "OCSF, for security tools"],
] as const;

function Exports(): VNode {
  const current = downloading.value;
  if (current !== undefined) {
    return (
      <div class="export" role="status">
        Saving <Text value={current.name} max={80} />: {bytesText(current.bytes)}
        <button type="button" class="quiet" onClick={current.cancel}>
          Cancel
        </button>
      </div>
    );
  }
  return (
    <details
      class="export"
      open={isExportOpen.value}
      onToggle={({ currentTarget }) => {
        isExportOpen.value = currentTarget.open;
      }}
    >
      <summary class="button">Export</summary>
      <div class="menu">
        <p class="help">Every call that matches the filters, oldest first. The export is recorded in the journal.</p>
        {FORMATS.map(([format, title]) => (
          <button key={format} type="button" onClick={() => exportAs(format)}>
            {title}
          </button>
        ))}
      </div>
    </details>
  );
}

function exportAs(format: string): void {
  isExportOpen.value = false;
  const params = new URLSearchParams(query.value);
  params.delete("order");
  params.set("format", format);
  void download(`/audit/export?${params}`, `calls-${new Date().toISOString().slice(0, 10)}.${format}`);
}

function onKey(event: KeyboardEvent): void {
  if (!isCommandKey(event)) return;
  const action = KEYS[event.key];
  if (action === undefined) return;
  event.preventDefault();
  action();
}

const KEYS: Readonly<Record<string, () => void>> = {
  "/": () => document.getElementById("filter-text")?.focus(),
  f: () => (live.value === undefined ? startLive() : pauseLive(!live.value.isPaused)),
  j: () => focusRow(1),
  k: () => focusRow(-1),
  b: () => {
    if (storyId() !== undefined) navigate(hrefOf("calls", [], new URLSearchParams(query.value)));
  },
};

/** Moves the focus to the next or the previous row. */
function focusRow(by: 1 | -1): void {
  const links: HTMLElement[] = [...document.querySelectorAll<HTMLElement>(".records .cell-time a")];
  const { activeElement } = document;
  const at = activeElement instanceof HTMLElement ? links.indexOf(activeElement) : -1;
  links[at === -1 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
}

export const callsPage: PageContent = {
  view: CallsView,
  run: () => () => {
    stopLive();
    downloading.value?.cancel();
    results.value = undefined;
  },
  keys: [
    ["/", "go to the filters"],
    ["f", "follow new calls; again: pause, resume"],
    ["j", "next row"],
    ["k", "previous row"],
    ["b", "back to the list"],
  ],
};
