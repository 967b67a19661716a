import { expect, test } from "bun:test";
import { levelOf } from "./shell-level.ts";

/** Where a script stands is believed only as far as it surely got there. */
const OUTSIDE = [
  ...["cd nowhere; touch ../x", "cd sub || true; touch ../x", "cd a & touch ../x", "(cd a); touch ../x"],
  ...["cd a | cat; touch ../x", "ls | cd a; touch ../x", "x=$(cd a); touch ../x", "bash -c 'cd a' && touch ../x"],
  ...["if true; then cd a; fi; touch ../x", "while cd a; do break; done; touch ../x", "! cd a; touch ../x"],
  ...["case x in y) cd a;; esac; touch ../x", "test -d a && cd a; touch ../x", "for i in; do cd a; done; touch ../x"],
  ...["if ! cd a; then echo no; fi; touch ../x", "cd a || cd b; touch ../x", "coproc cd a; touch ../x"],
  // What ought to end the script, and does not.
  ...["cd a || (exit 1); touch ../x", "cd a || exit 1 2; touch ../x", "cd a || return; touch ../x"],
  ...["cd a || break; touch ../x", "exit() { :; }; cd a || exit; touch ../x", "cd a || bash -c exit; touch ../x"],
  ...["f() { cd a || return 1; }; f; touch ../x", "for i in 1; do cd a || break; done; touch ../x"],
  ...["set -e; cd a || true; touch ../x", "set -e; cd a && ls; touch ../x", "set -e; ! cd a; touch ../x"],
  ...[
    "set -e; set +e; cd a; touch ../x",
    "set -e; if cd a; then ls; fi; touch ../x",
    "set -e; (cd a; touch ../x) || :",
  ],
  ...["set -e; shopt -uo errexit; cd a; touch ../x", "trap 'set +e' DEBUG; set -e; cd a; touch ../x"],
  ...["set -e; x=$(cd a; touch ../x)", "set -e; f() { cd a; touch ../x; }; f || true"],
  // Places that nobody knows.
  ...['cd "$X"; touch x', "cd $(cat f) && touch x", "cd -; touch x", "popd -n; touch x", "pushd +1; touch x"],
  ...["cd ~root; touch x", "cd ~-; touch x", "cd .?; touch x", "cd ..//; touch x", "cd a/../..; touch x"],
  ...[
    "CDPATH=/; cd etc && touch x",
    "shopt -s cdable_vars; cd etc && touch x",
    "shopt -s lastpipe; ls | cd ..; touch x",
  ],
  // Loops come back to where they went.
  ...["while :; do touch x; cd ..; done", "cd a/b && for i in 1 2 3; do touch x; cd ..; done"],
  ...[
    "for d in a b; do cd $d; touch x; cd ..; done",
    "for i in 1 2; do for j in 1; do cd ..; break 2; done; cd; done; touch x",
  ],
  // Functions, texts and other shells.
  ...[
    "go() { cd /etc; }; go; touch x",
    "go() { cd /etc; return; }; go; touch x",
    "f() { cd ..; }; g() { f; }; g; touch x",
  ],
  ...["cd() { builtin cd /etc; }; cd a && touch x", "f() { if ls a; then f; fi; cd ..; touch x; }; f"],
  ...[
    "ls && cd() { :; }; cd /etc; touch x",
    "cd() { :; }; bash -c 'cd /etc; touch x'",
    "cd() { :; }; unset -f cd; cd ..; touch x",
  ],
  ...["ls && die() { exit 1; }; cd a || die; touch ../x", "die() { exit 1; }; bash -c 'cd a || die; touch ../x'"],
  ...["die() { exit 1; }; unset -f die; cd a || die; touch ../x", "die() { exit 1; } & cd a || die; touch ../x"],
  ...["eval 'cd ..'; touch x", "trap 'cd ..' DEBUG; touch x", "set -- ..; cd $1; touch x", "bash -c 'cd ..; touch x'"],
  ...["cd a; cd a; trap 'cd ..' ERR; cd a; cd; cd nowhere; touch x", "f() { cd ..; }; trap f ERR; cd nowhere; touch x"],
  ...["pushd /etc; pushd; pushd; touch x", "cd /etc; cd ~; cd -; touch x"],
  // Programs that stand elsewhere, and links that lead there.
  ...['mktemp() { echo /etc; }; cd "$(mktemp -d)" && touch x', "mktemp() { echo /etc; }; t=$(mktemp); echo > $t/x"],
  ...["env -C /etc touch x", "env --chdir=.. touch x", "git -C /etc init", "git -C ../y commit -m x"],
  ...["ln -s / x", "ln -s ../.. src/up", "ln -s .. up", "touch .?/x", "cp f .?/", "find .. -execdir touch x {} +"],
  ...[`touch ${"./".repeat(130)}../x`, `touch a{${"x,".repeat(80)}/../../../x}`, "shopt -s extglob\ntouch @(..)/x"],
];

const INSIDE = [
  ...["cd a && touch ../x", "cd a || exit 1; touch ../x", "cd a || exit; touch ../x", "cd a || exit $?; touch ../x"],
  ...[
    "cd a || { echo no >&2; exit 1; }; touch ../x",
    "if cd a; then touch ../x; fi",
    "f() { cd a || return; touch ../x; }; f",
  ],
  ...[
    "if ! cd a; then exit 1; fi; touch ../x",
    "until cd a; do sleep 1; done; touch ../x",
    "cd a && ls && cd .. && touch x",
  ],
  ...["set -e; cd a; touch ../x", "set -euo pipefail\ncd a\ntouch ../x", "set -o errexit; cd a; touch ../x"],
  ...["cd a; touch x", "mkdir -p a/b; cd a/b; touch c", "cd; touch x", "cd .; touch x", 'cd "$HOME" && touch x'],
  ...["d=a; cd $d && touch ../x", 't=$(mktemp -d); cd "$t" && touch x', "(cd a && touch ../x); touch y"],
  ...[
    "pushd a; touch x; popd; touch y",
    "pushd a > /dev/null && touch ../x && popd && touch y",
    "cd a && cd - && touch x",
  ],
  ...["for d in */; do (cd $d && touch x); done", "for d in a b; do cd $d || continue; touch x; cd ..; done"],
  ...["cd /etc && cd - && touch x", "trap 'cd /; ls' EXIT; touch x", 'touch "$PWD/x"', "cp a $PWD/b"],
  ...['cd "$(mktemp -d)" && touch x', "for d in a b; do pushd $d; touch x; popd; done"],
  ...["die() { exit 1; }; cd a || die; touch ../x", "pushd /etc; popd; touch x"],
  ...["env -C a touch x", "git -C sub commit -m x", "ln -sf ../shared/x src/x", "ln -s a b"],
];

/** They destroy what stands where they come to. */
const BANNED = [
  ...[
    "eval 'cd /'; rm -rf *",
    "trap 'rm -rf *' EXIT; cd /",
    "f() { rm -rf *; }; cd /; f",
    "f() { cd /; }; f; rm -rf *",
  ],
  ...["cd nowhere; rm -rf ../*", "pushd /; rm -rf *", "cd /usr && cd local && rm -rf bin", "cd / && rm -rf $PWD/*"],
];

test.each(OUTSIDE)("asks: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "high", verdict: "ask" });
});

test.each(INSIDE)("changes the workspace: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "medium", verdict: "none" });
});

test.each(BANNED)("banned: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "critical", verdict: "deny" });
});
