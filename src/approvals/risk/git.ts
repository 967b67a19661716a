import { HIGH, type ShellRule } from "./rule.ts";

/** Calls of git that always ask. */
export const GIT: readonly ShellRule[] = [
  {
    ...HIGH,
    id: "git-destroys",
    note: "Throws away commits or work that git would otherwise keep.",
    calls: [{ programs: "git", test: "git destroys" }],
    matches: ["git push --force", "git reset --hard HEAD~3", "git clean -fdx", "git -C x push -f", "git branch -D x"],
    misses: ["git push origin main", "git reset HEAD x", "git clean -n", "git log --grep='push --force'"],
  },
  {
    ...HIGH,
    id: "git-starts-programs",
    note: "Makes git start a program that it is told by name.",
    calls: [{ programs: "git", test: "git starts programs" }],
    matches: ["git -c core.pager='sh x' log", "git -c alias.x='!rm -rf ~' x", "git rebase --exec make main"],
    misses: ["git -c color.ui=false log", "git -c pager.log=false log", "git log --grep=exec", "git rebase main"],
  },
  {
    ...HIGH,
    id: "git-reaches-elsewhere",
    note: "Sends to or takes from a repository that the command itself names.",
    calls: [{ programs: "git", test: "git goes elsewhere" }],
    matches: ["git clone https://x/y", "git remote add o git@h:x", "git push https://h/x main", "git fetch ../other"],
    misses: ["git push origin main", "git fetch", "git remote -v", "git pull origin feature/x"],
  },
  {
    ...HIGH,
    id: "git-settings",
    note: "Changes settings through which git starts programs or trusts servers.",
    calls: [{ programs: "git", test: "git gets settings" }],
    matches: ["git config alias.x '!sh'", "git config core.hooksPath .x", "git config --global user.name x"],
    misses: ["git config user.name x", "git config branch.main.remote origin", "git config --unset branch.main.remote"],
  },
  {
    ...HIGH,
    id: "git-unknown-verb",
    note: "An alias or an extension of git: what it runs is not told by the command.",
    calls: [{ programs: "git", unless: "git has this verb" }],
    matches: ["git up", "git $x", "git my-alias"],
    misses: ["git", "git --version", "git status", "git commit -m up"],
  },
];
