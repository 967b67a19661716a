import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { Refusal } from "../../../../src/core/errors.ts";
import { bash } from "../../../../tools/workspace/bash.ts";
import { configFor } from "../../../tools/workspace/stand.ts";
import { temporaryDirectory } from "../temporary-directory.ts";
import { COMMANDS, type ConfinedStand, confinedStand, missing } from "./stand.ts";

/** The shipped tool, confined as by the service. */
const folder = temporaryDirectory();
const workspace = join(folder, "project");
mkdirSync(workspace);
const tool = bash.make(configFor(workspace));
const secret = join(folder, "key.pem");
const open = join(folder, "audit.jsonl");
let stand: ConfinedStand;

const Answer = z.strictObject({ output: z.string(), exitCode: z.int(), truncated: z.boolean() });
const run = async (command: string): Promise<z.output<typeof Answer>> =>
  Answer.parse(await stand.call(tool, tool.input.parse({ command })));

const has = (program: string): boolean => Bun.which(program) !== null;
const skipped = missing !== undefined || !COMMANDS.has("bash");

beforeAll(async () => {
  writeFileSync(secret, "PRIVATE", { mode: 0o600 });
  writeFileSync(open, "line\n");
  chmodSync(open, 0o666);
  if (!skipped) stand = await confinedStand([tool]);
});
afterAll(() => stand?.close());

describe.skipIf(skipped)(`operations that a script cannot do (${missing ?? "held"})`, () => {
  test.each([
    ["read a file of the service", `cat ${secret}`],
    ["read it through a link", `ln -s ${secret} link; cat link`],
    ["read it through a descriptor's path", `exec 3<.; cat /proc/self/fd/3/../key.pem`],
    ["list the folder above", "ls .."],
    ["read the users", "cat /etc/passwd"],
    ["read the service's environment", `tr '\\0' '\\n' < /proc/${process.pid}/environ`],
    ["read everybody's command lines", `cat /proc/${process.pid}/cmdline`],
    ["list the processes", "ls /proc"],
    ["append to the audit", `echo x >> ${open}`],
    ["truncate it", `: > ${open}`],
    ["remove it", `rm -f ${open}`],
    ["move it here", `mv ${open} here`],
    ["link it here", `ln ${open} here`],
    ["make a file beside it", `touch ${folder}/new`],
    ["write to /tmp", `echo x > ${tmpdir()}/stc-confinement-left`],
    ["make a file set-id", `chmod u+s ${secret}`],
    ["change a file's times", `touch -d 2001-01-01 ${open} && [ ${open} -ot ${secret} ]`],
    ["kill the service", `kill -9 ${process.pid}`],
    ["ask whether it lives", `kill -0 ${process.pid}`],
    ["end its supervisor", "kill -9 $PPID"],
    ["ask whether its supervisor lives", "kill -0 $PPID"],
    ["slow it down", `renice 19 ${process.pid}`],
    ["connect by TCP", "exec 3<>/dev/tcp/127.0.0.1/1"],
    ["send by UDP", "echo x > /dev/udp/127.0.0.1/9"],
    ["leave the session", "setsid --wait true"],
    ["take another user's rights", "su -c id"],
  ])("%s", async (_title, command) => {
    const { output, exitCode } = await run(command);
    expect(exitCode).not.toBe(0);
    expect(output).not.toContain("PRIVATE");
    expect(readFileSync(open, "utf8")).toBe("line\n");
    expect(statSync(secret).mode & 0o777).toBe(0o600);
    expect(existsSync(join(folder, "new"))).toBe(false);
  });

  test("a mode changed by its path stays as it was, wherever the file is", async () => {
    await run(`chmod 644 ${secret}; chmod 600 ${open}; chmod 000 ${folder}; chmod -R 777 ${folder}`);
    expect([statSync(secret).mode & 0o777, statSync(open).mode & 0o777]).toEqual([0o600, 0o666]);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
  });

  test.skipIf(!has("perl"))("create a set-id file, by any call", async () => {
    const calls = [
      'syscall(2, "s1", 0101, 06755)',
      'syscall(257, -100, "s2", 0101, 06755)',
      'syscall(85, "s3", 06755)',
      'syscall(133, "s4", 0106755, 0)',
      'open(F, ">", "s5"); syscall(91, fileno(F), 06755)',
      'my $how = pack("QQQ", 0101, 06755, 0); syscall(437, -100, "s6", $how, 24)',
    ];
    for (const call of calls) await run(`umask 0; perl -e '${call}'`);
    const made = readdirSync(workspace).filter((name) => /^s[1-6]$/.test(name));
    expect(made.filter((name) => (statSync(join(workspace, name)).mode & 0o6000) !== 0)).toEqual([]);
  });

  test.each([
    ["a child in the background", "sleep 60 > /dev/null 2>&1 & echo $!"],
    ["one in a group of its own", "set -m; sleep 60 > /dev/null 2>&1 & echo $!"],
    ["one without a name or environment", "set -m; (exec env -i sleep 60) > /dev/null 2>&1 & echo $!"],
    ["a grandchild", "( ( sleep 60 > /dev/null 2>&1 & echo $! ) & wait )"],
  ])("%s does not outlive the call", async (_title, command) => {
    const { output } = await run(command);
    const pid = Number(output.trim().split("\n").at(-1));
    expect(pid).toBeGreaterThan(1);
    while (isAlive(pid)) await Bun.sleep(5);
  });

  test.skipIf(!has("perl"))("a process that keeps changing its id does not outlive the call", async () => {
    const beat = join(workspace, "beat");
    // Each process starts the next one in a new group and ends; some of them write a file.
    const chain = `perl -e 'for (my $n = 0; ; $n++) { exit if fork or $n > 20000; setpgrp; if ($n % 50 == 0) { open(F, ">", "beat"); print F $n; close F } }'`;
    for (let round = 0; round < 3; round += 1) {
      await run(`(${chain} > /dev/null 2>&1 &); until [ -s beat ]; do sleep 0.01; done`);
      const last = readFileSync(beat, "utf8");
      await Bun.sleep(300);
      expect(readFileSync(beat, "utf8")).toBe(last);
      rmSync(beat);
    }
  });

  test("it yields memory and processor to the service, and cannot take them back", async () => {
    const read = 'read score < /proc/self/oom_score_adj; echo "$score $(nice)"';
    const { output } = await run(`${read}; echo 0 > /proc/self/oom_score_adj; renice -n -5 $$ > /dev/null; ${read}`);
    const lines = output.split("\n").filter((line) => /^1000 [1-9][0-9]$/.test(line));
    expect(lines).toHaveLength(2);
  });

  test.each([
    ["its last words are kept", "trap 'echo ended by TERM; exit' TERM; sleep 60 & wait; echo next", "ended by TERM\n"],
    [
      "the processes that it started may end in order too",
      `bash -c "trap 'echo inner; exit' TERM; sleep 60 & wait"`,
      "inner\n",
    ],
    ["one that ignores SIGTERM is killed", "trap '' TERM; while :; do sleep 60; done", ""],
  ])("a script that times out gets SIGTERM before SIGKILL: %s", async (_title, command, output) => {
    const refused = stand.call(tool, tool.input.parse({ command, timeoutMs: 1_000 })).catch((error: unknown) => error);
    const refusal = (await refused) as Refusal;
    expect(refusal).toMatchObject({ code: "OUTCOME_UNKNOWN", details: { timedOut: true, timeoutMs: 1_000 } });
    expect(Refusal.outputSoFarOf(refusal)?.kept).toMatchObject({ output });
  });

  test("one call's signals do not reach another", async () => {
    const other = run("sleep 0.5; echo whole");
    await run("kill -9 -1; true").catch(() => {});
    expect(await other).toMatchObject({ output: "whole\n", exitCode: 0 });
  });
});

describe.skipIf(skipped)("operations that a script can do", () => {
  test.each([
    ["read and write", "echo hi > a.txt; cat a.txt; mkdir -p d/e; mv a.txt d/e; ls d/e", "hi\na.txt\n"],
    ["pipes", "seq 5 | sort -r | head -n 2 | tr '\\n' ' '", "5 4 "],
    ["substitution", 'cat <(echo one) - <<< "two"', "one\ntwo\n"],
    ["a here-document", "cat <<X\nhere\nX", "here\n"],
    ["both outputs", "echo out; echo err >&2", "out\nerr\n"],
    ["a temporary file", 'f=$(mktemp) && echo x > "$f" && cat "$f" && rm "$f"', "x\n"],
    ["a deadline of its own", "timeout 0.1 sleep 5; echo $?", "124\n"],
    ["jobs", "for i in 1 2 3; do (echo $i) & done; wait", /^[123]\n[123]\n[123]\n$/],
    ["nothing to read", "cat; echo end", "end\n"],
    ["/dev/null and /dev/zero", "echo x > /dev/null; head -c 4 /dev/zero | wc -c | tr -d ' '", "4\n"],
    ["random numbers", "head -c 4 /dev/random | wc -c | tr -d ' '", "4\n"],
    ["times of a file that it made", "touch t && touch t && [ -f t ] && echo yes", "yes\n"],
    ["sed in place", "printf 'a\\n' > s; sed -i s/a/b/ s; cat s", "b\n"],
    ["a pipe that nobody reads", "yes | head -n 1", "y\n"],
    ["a script by its interpreter", "echo 'echo ran' > r.sh; bash r.sh", "ran\n"],
    ["an archive", "mkdir -p k; echo 1 > k/a; tar cf k.tar k && rm -r k && tar xf k.tar && cat k/a", "1\n"],
  ] as const)("%s", async (_title, command, output) => {
    const answer = await run(command);
    expect(answer).toMatchObject({ exitCode: 0 });
    expect(answer.output).toMatch(typeof output === "string" ? new RegExp(`^${RegExp.escape(output)}$`) : output);
  });

  test.skipIf(!has("git"))("use its own repository", async () => {
    const who = "-c user.name=Ada -c user.email=ada@example.org";
    const { output, exitCode } = await run(
      `git init -q r && cd r && echo a > f && git add f && git ${who} commit -q -m first && git log --format=%s && git status --short`,
    );
    expect({ output: output.split("\n").at(-2), exitCode }).toEqual({ output: "first", exitCode: 0 });
  });

  test.skipIf(!has("node"))("run a language runtime", async () => {
    expect(await run("node -e 'console.log(6 * 7)'")).toMatchObject({ output: "42\n", exitCode: 0 });
  });

  const authorities = "/etc/ssl/certs/ca-certificates.crt";
  test.skipIf(!existsSync(authorities))(
    "read the public certificate authorities, and nothing next to them",
    async () => {
      expect(await run(`head -c 11 ${authorities} | wc -c | tr -d ' '`)).toMatchObject({ output: "11\n", exitCode: 0 });
      expect(await run("ls /etc/ssl/certs /etc/ssl/private")).not.toMatchObject({ exitCode: 0 });
    },
  );

  test.each([
    [
      "a name that is no text",
      `echo "$TMPDIR"; mkdir "$TMPDIR"/d; echo x > "$TMPDIR"/d/$'\\xff\\xfe'; echo x > "$TMPDIR"/$'\\xfd'`,
    ],
    [
      "what nobody may look into",
      'echo "$TMPDIR"; cd "$TMPDIR"; mkdir -p a/b; echo x > a/b/c; umask 777; mkdir a/b/shut',
    ],
    ["links out of it", `echo "$TMPDIR"; ln -s "$PWD" "$TMPDIR"/out; mkdir "$TMPDIR"/d; ln -s ../.. "$TMPDIR"/d/up`],
  ])("nothing of its temporary directory stays: %s", async (_title, command) => {
    const before = readdirSync(workspace).length;
    const { output } = await run(command);
    expect(output).toContain("safe-tool-call-");
    while (existsSync(output.trim())) await Bun.sleep(5);
    expect(readdirSync(workspace).length).toBe(before);
  });

  // Removing these by their full paths would take minutes.
  test.skipIf(!has("perl"))("and its removal does not delay the answer, however deep it is", async () => {
    const name = "d".repeat(50);
    const { output } = await run(
      `cd "$TMPDIR"; echo "$TMPDIR"; perl -e 'for (1..1500) { mkdir "${name}"; chdir "${name}" }'`,
    );
    while (existsSync(output.trim())) await Bun.sleep(5);
  });

  test("nothing of its temporary directory stays", async () => {
    const { output } = await run('echo "$TMPDIR"; mkdir -p "$TMPDIR/a/b"; echo x > "$TMPDIR/a/b/c"');
    expect(output).toContain("safe-tool-call-");
    expect(existsSync(output.trim())).toBe(false);
    expect(readdirSync(workspace).length).toBeGreaterThan(0);
  });
});

function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
  } catch {
    return false;
  }
}
