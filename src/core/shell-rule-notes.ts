/**
 * What a script does that matches a built-in shell rule, for approvers and readers of the audit. Apart from the rules, so that the
 * console can say it without them.
 */
export const SHELL_RULE_NOTES = {
  "removes-everything": "Removes the root, a system directory, a home, or a folder above the workspace.",
  "opens-everything": "Changes owner or rights of everything in the root, a system directory or a home.",
  "destroys-disk": "Creates a file system, changes partitions, or writes directly to a disk.",
  "writes-protected": "Writes kernel settings, accounts, rights to log in, or jobs of the system.",
  "fork-bomb": "A function that starts copies of itself without end (fork bomb).",
  "stops-machine": "Stops or restarts the machine.",
  "kills-everything": "Sends a signal to every process.",
  "changes-kernel": "Loads or removes parts of the kernel, or starts another one.",
  "drops-guards": "Switches off the machine's firewall or its mandatory access control.",
  "reverse-shell": "Connects a shell to a network connection.",
  "runs-what-it-fetches": "Runs code from the network that nobody has seen.",
  "erases-traces": "Removes the shell's history or every job of the user.",
  "cloud-metadata": "Contacts the metadata service of a cloud, which returns the machine's credentials.",
  "removes-recursively":
    "Removes folders with their contents, files outside the workspace, or files that the command does not name.",
  overwrites: "Overwrites, cuts or wipes files or devices.",
  "runs-file": "Runs a file by its path: its content is not checked.",
  "chooses-loading": "Sets a variable that decides which programs, libraries or settings are used.",
  "changes-language": "Changes the meaning of words in the rest of the script.",
  "filter-starts-programs":
    "A script of sed or awk that starts programs, writes outside the workspace, or cannot be read.",
  "starts-programs": "An option that makes the program start another one.",
  "writes-outside": "Writes outside the workspace, or to an unknown path.",
  "writes-start-files": "Writes a file by which git, a shell or an editor starts programs later.",
  "reads-secrets": "Reads or searches for files in which keys and passwords are usually stored.",
  "cannot-classify": "The text does not show what this runs.",
  "gains-privileges": "Runs as another user, or changes users and their rights.",
  "changes-rights": "Changes owners or rights of whole folders, or opens files to everybody.",
  installs: "Installs or removes packages: their own programs run while that happens.",
  network: "Talks to the network.",
  "signals-processes": "Ends processes or sends them signals.",
  infrastructure: "Changes containers, clusters or clouds.",
  "system-settings": "Changes services, schedules, mounts, networks or other settings of the system.",
  interpreter: "Runs a program in a language that is not analysed, or a script from a file or a pipe.",
  "build-tool": "Runs commands that a file of the project contains.",
  "git-destroys": "Throws away commits or work that git would otherwise keep.",
  "git-starts-programs": "Makes git start a program that the command names.",
  "git-reaches-elsewhere": "Pushes to or fetches from a repository whose address is in the command.",
  "git-settings": "Changes settings through which git starts programs or trusts servers.",
  "git-unknown-verb": "An alias or an extension of git: the command does not show what it runs.",
  reads: "Reads and changes nothing, whatever its options.",
  "reads-unless": "Reads and changes nothing without the options that write.",
  "reads-infrastructure":
    "Shows the state of containers, clusters and services, with options that are known to only show.",
  "reads-packages":
    "Shows packages, versions and settings of development tools, with options that are known to only show.",
  changes: "Changes files of the workspace, or runs a program without a rule.",
  "shell-in-shell": "Starts another shell; the script that it runs was checked too.",
} as const;
