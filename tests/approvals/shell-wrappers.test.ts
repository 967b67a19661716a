import { expect, test } from "bun:test";
import { levelOf } from "./shell-level.ts";

/** Wrappers, with an option that takes the next word, as their manuals have it. */
const WITH_VALUE = [
  ...["parallel --results out", "parallel --tmpdir t", "parallel --wd d", "parallel --joblog l --retries 3"],
  ...["parallel --nice 3 --timeout 3 --delay 1", "parallel --results echo", "sem --id x", "sem -j 3 --fg"],
  ...["xargs -a f", "xargs --process-slot-var echo", "xargs -0 -n 1 -P 4", "env --chdir d", "env -a x", "env -P p"],
  ...["sudo --chdir d", "sudo --role r --type t", "sudo --command-timeout 3", "sudo -c staff", "doas -a style"],
  ...["strace -b execve", "strace --output f", "strace -I 1 -O 3", "ltrace -F f", "ltrace -n 3 -x f"],
  ...["flock --wait 3 l", "flock --start 3 --length 2 l", "watch -q 3", "watch --shotsdir d", "ssh -P tag h"],
  ...["chrt --sched-runtime 3 -d 0", "ionice --class 2 --classdata 2", "nice --adjustment 5", "time -o f"],
  ...["unshare -S 0 -G 0", "unshare --monotonic 3", "nsenter -S 0 -G 0 -t 1", "chroot --userspec u d"],
  ...["pkexec --user bob", "caffeinate -t 60", "proot -r d", "gosu bob", "runuser -u bob", "run0 --user x"],
];

/** With an option that no table knows: whether it takes the next word cannot be told. */
const UNKNOWN_OPTION = [
  ...[
    "parallel --frob out",
    "parallel --frob echo",
    "xargs --frob x",
    "xargs -0z echo",
    "env --frob x",
    "sudo --frob x",
  ],
  ...[
    "sudo -z x",
    "nice --frob 5",
    "timeout --frob 1 5",
    "timeout -z echo 5",
    "stdbuf -z L",
    "setsid -z x",
    "nohup -z x",
  ],
  ...["flock --frob x l", "watch --frob x", "ionice -z x", "chrt -z x 1", "taskset -z x 1", "unshare --frob x"],
  ...["nsenter --frob x", "chroot --frob x d", "strace -z9 x --frob y", "ssh -z x h", "time -z x", "exec -z x"],
];

test.each([...WITH_VALUE, ...UNKNOWN_OPTION])("banned: %s rm -rf /", (wrapper) => {
  expect(levelOf(`${wrapper} rm -rf /`)).toEqual({ risk: "critical", verdict: "deny" });
});

test("banned: what parallel puts in the place of its sign", () => {
  expect(levelOf("parallel --results out rm -rf {} ::: /").verdict).toBe("deny");
});

test.each(UNKNOWN_OPTION.filter((wrapper) => !/^(?:parallel|ssh|strace)/.test(wrapper)))("asks: %s ls", (wrapper) => {
  expect(levelOf(`${wrapper} ls`)).toMatchObject({ risk: "high", verdict: "ask" });
});

/** The word after a known flag is the program, and what it says is text. */
const LOW = [
  ...["xargs -0 grep reboot", "xargs -r0 grep -l shutdown", "xargs -0 -P4 -n1 echo rm -rf /", "xargs -d ' ' -t ls"],
  ...["timeout --foreground 5 man reboot", "timeout -v 5s grep reboot f", "timeout -k 5 --preserve-status 9 ls"],
  ...["nice -19 grep reboot f", "nice --adjustment=5 ls", "ionice -t -c3 ls", "chrt -b 0 ls", "taskset -ac 0-3 ls"],
  ...["stdbuf -o0 -eL grep reboot f", "setsid -w ls", "env -i FOO=1 grep halt f", "env -v ls", "command time -v ls"],
  ...[
    "chronic -v ls",
    "unbuffer -p ls",
    "nohup ls",
    "nohup --help",
    "xargs --version",
    "time -p ls",
    "watch -d -n1 ls",
  ],
];

test.each(LOW)("only looks: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "low", verdict: "none" });
});

const MEDIUM = [
  ...["parallel --bar -j 4 echo ::: a", "parallel --results out echo ::: a b", "parallel -k --dry-run echo ::: reboot"],
  ...["strace -f -e trace=file ls", "strace -ff -o out ls", "ltrace -S ls", "flock -n l ls"],
  ...["fakeroot mkdir d", "caffeinate -i ls", "script -q out.log"],
];

test.each(MEDIUM)("changes the workspace at most: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "medium", verdict: "none" });
});
