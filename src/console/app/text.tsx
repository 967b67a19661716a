import { useSignal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { misreadableInAscii } from "../../core/printable.ts";
import { linesOf, type Piece } from "./escapes.ts";
import { counted } from "./words.ts";

/**
 * Everything that shows text from outside. It is text, never markup; characters that would show nothing or mislead become
 * visible; what is left out says so and can be opened.
 */

const INLINE_CHARACTERS_MAX = 400;
const LINES_SHOWN = 16;
const CHARACTERS_SHOWN = 2_400;

interface TextProps {
  readonly value: string;
  readonly max?: number;
  /** True inside a link or a button, which can hold no other button: a longer text ends with "…" and cannot be opened. */
  readonly isFixed?: boolean;
}

/**
 * Shows a short text on one line, such as a name. Words that can be misread follow in ASCII. A longer text ends with what is left
 * out, and can be opened.
 */
export function Text(props: TextProps): VNode {
  const { value, max = INLINE_CHARACTERS_MAX } = props;
  return value.length > max ? <LongText {...props} max={max} /> : <bdi class="text">{piecesOf(value)}</bdi>;
}

/** Keeps its own state. A separate component, so that lists of a thousand short texts need no state. */
function LongText({ value, max, isFixed = false }: TextProps & { readonly max: number }): VNode {
  const isOpen = useSignal(false);
  return (
    <bdi class="text">
      {piecesOf(isOpen.value ? value : value.slice(0, max))}
      {isFixed && "…"}
      {!isFixed && !isOpen.value && (
        <button
          type="button"
          class="more"
          onClick={() => {
            isOpen.value = true;
          }}
        >
          … {counted(value.length - max, "more character")}
        </button>
      )}
    </bdi>
  );
}

function piecesOf(shown: string): ComponentChildren {
  const ascii = misreadableInAscii(shown);
  const isCut = ascii !== undefined && ascii.length > INLINE_CHARACTERS_MAX;
  return (
    <>
      {linesOf(shown).flatMap((line, at) => line.map((piece, index) => pieceOf(piece, `${at}.${index}`)))}
      {ascii !== undefined && (
        <bdi class="in-ascii" dir="ltr" title={`In ASCII, ${WHY_ASCII}`}>
          {isCut ? `${ascii.slice(0, INLINE_CHARACTERS_MAX)}…` : ascii}
        </bdi>
      )}
    </>
  );
}

/** Shows somebody's words in quotes. A quote in them does not end the quotation. */
export function Quoted({ value, max = INLINE_CHARACTERS_MAX }: Omit<TextProps, "isFixed">): VNode {
  return (
    <>
      “<Text value={value.replace(/[“”]/g, '"')} max={max} />”
    </>
  );
}

/** Shows a sentence of the service. What is between backticks is code, as in its messages for terminals. */
export function Sentence({
  value,
  max = INLINE_CHARACTERS_MAX,
}: {
  readonly value: string;
  readonly max?: number;
}): VNode {
  const pieces = value.split("`");
  if (pieces.length % 2 === 0 || pieces.length === 1 || value.length > max) return <Text value={value} max={max} />;
  return (
    <>
      {pieces.map((piece, at) =>
        at % 2 === 0 ? (
          <Text key={at} value={piece} />
        ) : (
          <code key={at}>
            <Text value={piece} />
          </code>
        ),
      )}
    </>
  );
}

const WHY_ASCII = "because letters look like others or run from right to left";

const PIECE_TITLES: Readonly<Record<Exclude<Piece["kind"], "text">, string>> = {
  end: "line end",
  escape: "a character that shows nothing or misleads",
  gap: "a character that shows nothing or misleads",
  alike: "a letter of another script than the rest of its word",
};

function pieceOf({ kind, text }: Piece, key: string): VNode | string {
  if (kind === "text") return text;
  return (
    <span key={key} class={`piece-${kind}`} title={PIECE_TITLES[kind]}>
      {text}
    </span>
  );
}

/** A text, or lines that belong to the display: no text from outside can look like one of them. */
export type BlockText = string | readonly string[];

export interface BlockProps {
  readonly value: BlockText;
  /** `diff` colours added and removed lines. */
  readonly as?: "plain" | "diff";
  /** True when the rest of a long text is open; without it the block remembers that itself. */
  readonly isOpen?: boolean;
  readonly onOpen?: () => void;
  readonly label: string;
  /** Lines with one of these words are marked, and also shown where the rest of the text is left out. */
  readonly told?: readonly string[];
}

interface ShownLine {
  readonly pieces: readonly Piece[];
  /** From 1. */
  readonly number: number;
  readonly isTold: boolean;
  /** The line begins after a line end in a text, not in the display. */
  readonly isInside: boolean;
}

function shownLines(value: BlockText, told: readonly string[] = []): readonly ShownLine[] {
  const texts = typeof value === "string" ? [value] : value;
  return texts
    .flatMap((text) => linesOf(text).map((pieces, at) => ({ pieces, isInside: typeof value !== "string" && at > 0 })))
    .map((line, at) => ({ ...line, number: at + 1, isTold: told.length > 0 && hasWord(line.pieces, told) }));
}

function hasWord(pieces: readonly Piece[], words: readonly string[]): boolean {
  const found = pieces.flatMap(({ text }) => text.toLowerCase().split(/[^\w.+-]+/));
  return words.some((word) => found.includes(word));
}

function sizeOf(value: BlockText): number {
  return typeof value === "string" ? value.length : value.reduce((sum, line) => sum + line.length + 1, 0);
}

/** Returns whether a block of this text starts with its rest left out. */
export function isLong(value: BlockText): boolean {
  return sizeOf(value) > CHARACTERS_SHOWN || shownLines(value).length > LINES_SHOWN;
}

/** Shows a text of any length with its line ends, in a fixed-width face. Long ones show their start and what is left out. */
export function Block({ value, as = "plain", label, isOpen, onOpen, told }: BlockProps): VNode {
  const own = useSignal(false);
  const folded = !(isOpen ?? own.value) && isLong(value);
  const lines = shownLines(value, told);
  const shown = folded ? cut(lines) : lines;
  const far = folded ? lines.slice(LINES_SHOWN).filter(({ isTold }) => isTold) : [];
  const ascii = folded ? undefined : misreadableInAscii(typeof value === "string" ? value : value.join(" "));
  return (
    <figure class="block" aria-label={label}>
      <pre class={`lines ${as}`}>
        {shown.map((line) => (
          <LineShown key={line.number} line={line} as={as} />
        ))}
        {cut(far).map((line) => (
          <LineShown key={line.number} line={line} as={as} isRemote />
        ))}
      </pre>
      {folded && (
        <button
          type="button"
          class="show-all"
          onClick={
            onOpen ??
            (() => {
              own.value = true;
            })
          }
        >
          Show all: {counted(lines.length, "line")}, {counted(sizeOf(value), "character")}
        </button>
      )}
      {ascii !== undefined && (
        <p class="ascii">
          <strong>In ASCII</strong>, {WHY_ASCII}: <code>{ascii}</code>
        </p>
      )}
    </figure>
  );
}

interface LineProps extends Required<Pick<BlockProps, "as">> {
  readonly line: ShownLine;
  /** Whether lines before it are left out. */
  readonly isRemote?: boolean;
}

function LineShown({ line: { pieces, number, isInside, isTold }, as, isRemote = false }: LineProps): VNode {
  const classes = [
    "line",
    isInside && "inside",
    isTold && "told",
    isRemote && "far",
    as === "diff" && diffClass(pieces),
  ];
  return (
    <span
      class={classes.filter((name) => name !== false).join(" ")}
      data-line={isRemote ? `line ${number}` : undefined}
    >
      {pieces.map((piece, index) => pieceOf(piece, String(index)))}
      {"\n"}
    </span>
  );
}

function cut(lines: readonly ShownLine[]): readonly ShownLine[] {
  let left = CHARACTERS_SHOWN;
  return lines.slice(0, LINES_SHOWN).map((line) => ({
    ...line,
    pieces: line.pieces.flatMap((piece) => {
      if (left <= 0) return [];
      const text = piece.text.slice(0, left);
      left -= text.length;
      return [{ ...piece, text }];
    }),
  }));
}

function diffClass([first]: readonly Piece[]): string {
  const text = first?.text ?? "";
  if (text.startsWith("@@")) return "hunk";
  if (/^(?:---|\+\+\+) /.test(text)) return "file";
  if (text.startsWith("+")) return "added";
  return text.startsWith("-") ? "removed" : "";
}
