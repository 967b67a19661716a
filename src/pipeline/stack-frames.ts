/** Lines that come out of a program's inside and mean something to its authors alone. */
const WHOLE: readonly RegExp[] = [
  // JavaScript, Java, .NET, Scala: `at Object.run (/app/x.js:1:2)`, `at a.b.C.d(C.java:12)`, `at X.Y() in C:\x.cs:line 3`.
  /^at [^ ].*[:(]/,
  /^at [^ ]+$/,
  /^\.\.\. \d+ (?:more|common frames omitted)/,
  // Python
  /^File ".*", line \d+/,
  /^Traceback \(most recent call last\)/,
  /^[~^]+$/,
  // Go
  /^created by [^ ]+/,
  /\.go:\d+(?: \+0x[0-9a-f]+)?$/,
  // Rust, C, gdb
  /^stack backtrace:/i,
  /^note: .*RUST_BACKTRACE/,
  /^\d+: +(?:0x[0-9a-f]+ - |[^ ]*::)/,
  /^#\d+ /,
  /\[0x[0-9a-f]+\]$/,
  // Ruby, PHP
  /^from [^ ]+:\d+:in /,
  /^[^ ]+\.rb:\d+:in /,
  /^thrown in .* on line \d+$/,
  // Node's own
  /^node:internal\//,
  /^Node\.js v\d/,
];

/** What Go shows of arguments. */
const GO_ARGUMENT = /0x[0-9a-f]|\{|\.\.\.|\?/;

/** All of it, up to the next empty line. */
const GOROUTINE = /^goroutine \d+ \[/;

/** A line longer than this is no frame, and costs too much to look at so often. UTF-16 units. */
const FRAME_CHARS_MAX = 1_024;

/** Without the frames of stack traces. What a program printed of its source below a frame goes with it. */
export function withoutFrames(lines: readonly string[]): readonly string[] {
  let follows = false;
  let isRoutine = false;
  return lines.filter((line) => {
    const trimmed = line.trim();
    isRoutine = GOROUTINE.test(trimmed) || (isRoutine && trimmed !== "");
    const isSource = follows && line.startsWith("    ");
    follows = isRoutine || isSource || isFrame(trimmed);
    return !follows;
  });
}

function isFrame(line: string): boolean {
  return line.length <= FRAME_CHARS_MAX && (WHOLE.some((pattern) => pattern.test(line)) || isGoCall(line));
}

/** `main.run(0xc000012345, {0x4, ...})`: no blank before the first argument that shows it, and its list ends the line. */
function isGoCall(line: string): boolean {
  const open = line.indexOf("(", 1);
  if (open === -1 || !line.endsWith(")")) return false;
  const from = Math.max(open, line.lastIndexOf(")", line.length - 2)) + 1;
  const blank = line.indexOf(" ");
  return GO_ARGUMENT.test(line.slice(from, blank === -1 ? line.length : Math.max(from, blank)));
}
