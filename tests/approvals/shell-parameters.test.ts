import { expect, test } from "bun:test";
import { levelOf } from "./shell-level.ts";

/** What `$1` and its like hold is followed to where it is used. */
const BANNED = [
  ...[`bash -c 'rm -rf "$1"' _ /`, "bash -c 'rm -rf $0' /", `bash -c 'rm -rf "$@"' _ a /`, `sh -ec 'rm -rf "$1"' _ /`],
  ...[`bash -c 'shift; rm -rf "$1"' _ a /`, `sh -c 'sh -c "rm -rf \\$1" _ "$1"' _ /`, `env bash -c 'rm -rf $1' _ /`],
  ...['set -- /; rm -rf "$1"', 'set -- /; rm -rf "$@"', "set -- /; rm -rf $*", `set -- /; rm -rf \${1}`],
  ...["set / ; rm -rf $1", "set -x /; rm -rf $1", "set -- a /; shift; rm -rf $1", "set -- a b /; shift 2; rm -rf $1"],
  ...[`set -- a b c d e f g h i /; rm -rf \${10}`, 'set -- a; set -- "$@" /; rm -rf $2', "set -- /; eval 'rm -rf $1'"],
  ...['f() { rm -rf "$1"; }; f /', 'f() { rm -rf "$@"; }; f /', 'f() { shift; rm -rf "$1"; }; f a /'],
  ...['f() { g "$@"; }; g() { rm -rf "$1"; }; f /', "f() { rm -rf $1; }; x=/; f $x", "f() { rm -rf $1; }; ls | f /"],
  ...["f() { rm -rf $1; }; f build; f /", "f() { rm -rf $1; }; (f /)", "f() { rm -rf $1; }; trap 'f /' EXIT"],
  ...[
    "f() { rm -rf $1; }; export -f f; bash -c 'f /'",
    "f() { ls; }; f() { rm -rf $1; }; f /",
    "f() { rm -rf $1/*; }; f",
  ],
  ...["rm -rf $1/*", "echo / | xargs -I{} rm -rf {}", `xargs sh -c 'rm -rf "$1"' _ <<< /`, "set -- rm -rf /; $@"],
  ...["f() { rm -rf $1; f $1; }; f /"],
];

const HIGH = [
  ...["f() { touch $1; }; f ../x", "f() { touch $1/x; }; f ..", 'f() { touch "$1"; }', "f() { touch $1; }; f $(cat l)"],
  ...['set -- $(ls); touch "$2"', "set -- a; if ls; then set -- ../x; fi; touch $1", "xargs sh -c 'touch $2' _ < f"],
  ...[
    "f() { touch $2; }; f $(cat l) a",
    "set -- a; shift $n; touch $1",
    "sh -s ../x <<< 'touch $1'",
    "touch $1",
    "f() { f $2 $1; rm -rf $1; }; f a /",
  ],
  ...["f() { x=$1; }; f ../x; touch $x", "f() { while ls; do touch $1; shift; done; }; f a ../x"],
  ...[`set -- ${"a ".repeat(40)} ../x; touch "$@"`, `x='${"a ".repeat(80)} ../x'; touch $x`],
];

const MEDIUM = [
  ...['f() { touch "$1"; }; f out', 'f() { mkdir -p "$1" && cp a "$1/b"; }; f out', "set -- a b; touch $1 $2"],
  ...["bash -c 'touch \"$1\"' _ x", "f() { g $1; }; g() { touch $1; }; f a; f b", "set -- a; (set -- ../x); touch $1"],
  ...["f() { touch $1; }; f {a,../x}", "f() { touch $1 $2; }; f a b & wait"],
];

const LOW = [
  ...[
    'log() { echo "[$1] $2"; }; log info hi; log warn ho',
    'f() { grep -n "$1" src/*.ts; }; f x',
    "set -- a b; echo $#",
  ],
  ...['up() { [ -e "$1/.git" ] && echo "$1" || up "$1/.."; }; up .', 'walk() { walk "$1/a" | sort; }; walk .'],
];

test.each(BANNED)("banned: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "critical", verdict: "deny" });
});

test.each(HIGH)("asks: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "high", verdict: "ask" });
});

test.each(MEDIUM)("changes the workspace: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "medium", verdict: "none" });
});

test.each(LOW)("only looks: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "low", verdict: "none" });
});
