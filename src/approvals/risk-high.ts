import { isVersion } from "./risk-reads.ts";
import { high, isOne, names, type ShellRule } from "./risk-rule.ts";
import { awkReach, sedReach } from "./shell-filters.ts";
import { has, type Invocation, operandsOf } from "./shell-invocation.ts";
import { INTERPRETERS, isShell, NETWORK } from "./shell-network.ts";
import { isSecretPlace, reachOf } from "./shell-place.ts";
import { UNKNOWN } from "./shell-word.ts";
import { writtenBy } from "./shell-writes.ts";

const PRIVILEGES = names(
  "sudo doas su runuser pkexec gosu su-exec setcap capsh setpriv usermod useradd userdel groupadd groupdel groupmod passwd",
  "chpasswd gpasswd visudo adduser deluser chroot unshare nsenter newgrp chsh",
);
const INSTALLERS = names(
  "apt apt-get aptitude dpkg rpm yum dnf zypper apk pacman yay brew port snap flatpak nix-env emerge opkg",
);
const PACKAGES = names(
  "npm pnpm yarn bun pip pipx uv poetry pdm conda mamba gem bundle cargo go composer nuget easy_install cpan luarocks",
);
const PACKAGE_VERBS =
  /^(?:i|in|ins|install|add|ci|un|uninstall|remove|rm|update|upgrade|up|link|unlink|publish|get|sync|download|require|create|init|self-update|tool|venv)$/;
const PACKAGE_LISTS =
  /^(?:ls|list|ll|la|view|info|show|outdated|audit|why|search|freeze|check|config|root|prefix|bin|whoami|help|env|vet|fmt|metadata|tree|doc|version)$/;
const BUILDERS = names(
  "make gmake cmake ninja meson bazel bazelisk gradle gradlew mvn mvnw ant rake just task tox nox invoke fab grunt gulp npx bunx pnpx",
  "uvx tsx ts-node pytest jest vitest mocha phpunit rspec ctest sbt mix dotnet xcodebuild buck scons waf turbo nx lerna",
);
const PROCESSES = names("kill pkill killall xkill skill");
const INFRASTRUCTURE = names(
  "docker podman nerdctl buildah skopeo kubectl oc helm terraform tofu terragrunt pulumi ansible ansible-playbook vagrant nomad consul",
  "vault aws gcloud gsutil az doctl heroku vercel netlify fly flyctl eksctl kops minikube kind argocd flux istioctl crictl ctr lxc virsh",
  "docker-compose packer wrangler firebase gcloud-crc32c",
);
const SYSTEM = names(
  "systemctl service launchctl crontab at batch mount umount swapon swapoff sysctl iptables ip6tables nft ufw firewall-cmd ip route",
  "ifconfig hostnamectl timedatectl loginctl update-rc.d chkconfig rc-service losetup logrotate setenforce auditctl mknod chattr",
  "update-alternatives ldconfig localectl systemd-run tc ebtables arptables dmsetup lvremove vgremove pvremove lvcreate pvcreate",
  "hdparm nvme smartctl fsck e2fsck resize2fs tune2fs zpool zfs btrfs mdadm badblocks fstrim",
);
const SYSTEM_LOOKS: ReadonlyMap<string, RegExp> = new Map([
  ["systemctl", /^(?:status|is-active|is-enabled|is-failed|list-.*|show|cat)$/],
  ["crontab", /^-l$/],
  ["ip", /^(?:a|addr|address|link|route|r|neigh|-br|-brief|-[46sj])$/],
  ["docker", /^(?:ps|images|version|info|logs|inspect|stats|top)$/],
]);
const DESTROYERS = names("dd truncate shred wipe srm fallocate wipefs sgdisk fdisk parted cryptsetup");
const FIND_REMOVES = /^-delete$/;

/** Variables that choose which programs, libraries or settings are loaded. */
const LOADER =
  /^(?:PATH|CDPATH|IFS|ENV|BASH_ENV|BASHOPTS|SHELLOPTS|PS[0-9]|PROMPT_COMMAND|LD_[A-Z_]+|DYLD_[A-Z_]+|GIT_[A-Z_]+|NODE_[A-Z_]+|PYTHON[A-Z]+|PERL[A-Z0-9_]+|RUBY[A-Z]+|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|CLASSPATH|BUN_[A-Z_]+|NPM_CONFIG_[A-Z_]+|npm_config_[a-z_]+|[A-Z_]*PAGER|[A-Z_]*EDITOR|VISUAL|BROWSER|SHELL|LESS(?:OPEN|CLOSE|EDIT|KEY.*)|[A-Z]+_ASKPASS|RUSTC_WRAPPER|CC|CXX|MAKEFLAGS|GCONV_PATH|LOCPATH|OPENSSL_[A-Z]+|SSL[A-Z_]+|(?:https?|all|ftp|no)_proxy|(?:HTTPS?|ALL|FTP)_PROXY|HOME|TMPDIR)\+?=/;
/** Values that keep programs from asking or paging. */
const HARMLESS_SETTING =
  /^(?:(?:GIT_|MAN)?PAGER=(?:cat)?|GIT_TERMINAL_PROMPT=0|NODE_ENV=[a-z]+|PYTHON(?:UNBUFFERED|DONTWRITEBYTECODE)=1|GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)=.*|IFS=[\s,:;|]*|GIT_OPTIONAL_LOCKS=0|NODE_NO_WARNINGS=1)$/;

const FOLDERS = /^\/(?:usr\/(?:local\/)?)?s?bin\/[^/]+$|^\/opt\/homebrew\/bin\/[^/]+$/;

/** A file that is run, not a program of the system. */
function runsFile({ spelled }: Invocation): boolean {
  return spelled.includes("/") && !FOLDERS.test(normal(spelled));
}

/** `/usr/./bin/../bin/rm` is what it is. */
function normal(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/", 64)) {
    if (part === "" || part === ".") continue;
    if (part === ".." && parts.length > 0) parts.pop();
    else parts.push(part);
  }
  return path.startsWith("/") ? `/${parts.join("/")}` : parts.join("/");
}

function removes({ program, args, standing }: Invocation): boolean {
  if (program === "find") return args.some((arg) => FIND_REMOVES.test(arg) || arg.startsWith(UNKNOWN));
  if (program !== "rm") return false;
  const blind = operandsOf(args).some((path) => path.startsWith(UNKNOWN));
  return (
    blind || has(args, "rR", "--recursive") || operandsOf(args).some((path) => reachOf(path, standing) === "outside")
  );
}

function installs(run: Invocation): boolean {
  const { args } = run;
  if (isOne(run, INSTALLERS))
    return !args.some((arg) => /^(?:list|search|show|info|-l|-L|-s|-S|-qa?|--version|policy)$/.test(arg));
  if (!isOne(run, PACKAGES)) return run.args.some((arg, at) => arg === "pip" && args[at - 1] === "-m");
  return args.some((arg) => PACKAGE_VERBS.test(arg) || arg.startsWith(UNKNOWN));
}

function builds(run: Invocation): boolean {
  if (isVersion(run)) return false;
  if (isOne(run, BUILDERS)) return true;
  if (!isOne(run, PACKAGES)) return false;
  const verb = run.args.find((arg) => !arg.startsWith("-"));
  return verb !== undefined && !PACKAGE_LISTS.test(verb) && !PACKAGE_VERBS.test(verb);
}

function interprets(run: Invocation): boolean {
  const { program, args } = run;
  if (program === "source" || program === ".") return true;
  if (program === "eval") return args.length > 0;
  if (isOne(run, INTERPRETERS)) return !isVersion(run);
  if (program === "busybox" || program === "toybox" || !isShell(run)) return false;
  const takesText = args.some((arg) => /^-[a-zA-Z]*c/.test(arg));
  return !takesText && !isVersion(run);
}

function opensUp({ program, args }: Invocation): boolean {
  if (!names("chmod chown chgrp setfacl").has(program)) return false;
  if (has(args, "R", "--recursive") || program === "setfacl") return true;
  return (
    program === "chmod" &&
    args.some((arg) => /^[0-7]*[0-7][0-7][2367]$|^[2-7][0-7]{3}$|[+=][rwxX]*[st]|^[ugo]*[oa][ugo]*[+=][rx]*w/.test(arg))
  );
}

function looks({ program, args }: Invocation): boolean {
  const looking = SYSTEM_LOOKS.get(program);
  if (program === "mount") return args.length === 0;
  const verbs = args.filter((arg) => /^(?:add|del|delete|set|flush|change|replace)$/.test(arg));
  return looking?.test(args[0] ?? "") === true && verbs.length === 0;
}

function choosesLoading({ program, variables, args }: Invocation): boolean {
  const sets = [...variables, ...(/^(?:export|declare|typeset|readonly|local|env)$/.test(program) ? args : [])];
  return sets.some((set) => LOADER.test(set) && !HARMLESS_SETTING.test(set));
}

function changesLanguage({ program, args }: Invocation): boolean {
  if (program === "alias") return args.some((arg) => arg.includes("="));
  if (program === "enable" || program === "bind" || program === "complete") return args.length > 0;
  if (program === "shopt") return args.some((arg) => /^(?:expand_aliases|extdebug|sourcepath)$/.test(arg));
  return program === "hash" && has(args, "p");
}

function filterStarts({ family, program, args }: Invocation): boolean {
  if (program === "sed" || program === "gsed") {
    return (
      sedReach(args) === "starts" ||
      (sedReach(args) === "writes" && args.some((arg) => /[wW]\s*(?:\/|\.\.|~)/.test(arg)))
    );
  }
  if (!/^(?:awk|gawk|mawk|nawk)$/.test(family)) return false;
  return (
    awkReach(args) === "starts" || (awkReach(args) === "writes" && args.some((arg) => /"\s*(?:\/|\.\.|~)/.test(arg)))
  );
}

const STARTERS: ReadonlyMap<string, RegExp> = new Map([
  ["tar", /^--(?:checkpoint-action|to-command|use-compress-program|info-script|new-volume-script|rsh-command)|^-[IF]/],
  ["sort", /^--compress-pro/],
  ["rg", /^--(?:pre|hostname-bin)(?:=|$)/],
  ["man", /^-[PH]|^--(?:pager|html)/],
  ["less", /^\+.*!|^--lesskey/],
  ["vim", /^(?:-[cSsu]|--cmd|\+)/],
  ["vi", /^(?:-[cSsu]|--cmd|\+)/],
  ["nvim", /^(?:-[cSsu]|--cmd|\+)/],
  ["ag", /^--pager/],
  ["ack", /^--pager/],
  ["bat", /^--pager/],
  ["zip", /^-T|^--unzip-command|^-TT/],
  ["sqlite3", /\.(?:shell|system|import|output|once)|load_extension|writefile|edit\(/],
  ["jq", /^-L|^--library-path/],
  ["fd", /^(?:-x|-X|--exec)/],
]);

/** What always asks. Each row says in its examples what it is about. */
export const HIGH: readonly ShellRule[] = [
  high({
    name: "removes-recursively",
    note: "Removes folders with all in them, files outside the workspace, or files that the command does not name.",
    when: removes,
    matches: [
      "rm -rf build",
      "rm --recursive x",
      "find . -name '*.log' -delete",
      "ls | xargs rm",
      "/bin/rm -fR x",
      "rm $f",
      "rm /srv/x",
    ],
    misses: ["rm file.txt", "rm -f a b", "rmdir empty", "find . -name '*.ts'", "git rm x", "rm -- -r"],
  }),
  high({
    name: "overwrites",
    note: "Overwrites, cuts or wipes files or devices.",
    when: (run) => isOne(run, DESTROYERS) && run.args.length > 0 && !isVersion(run),
    matches: ["dd if=a of=b", "truncate -s 0 x", "shred -u x"],
    misses: ["cat truncate.md", "dd --help", "git add x"],
  }),
  high({
    name: "gains-privileges",
    note: "Runs as another user, or changes users and their rights.",
    when: (run) => isOne(run, PRIVILEGES),
    matches: ["sudo ls", "doas ls", "su -c ls", "env sudo ls", "chroot x ls"],
    misses: ["echo sudo", 'git commit -m "remove sudo; reboot"', "cat sudo.md", "ls sudoers"],
  }),
  high({
    name: "changes-rights",
    note: "Changes owners or rights of whole folders, or opens files to everybody.",
    when: opensUp,
    matches: ["chmod -R u+w x", "chown -R me x", "chmod 777 x", "chmod u+s x", "chmod o+w x"],
    misses: ["chmod +x run.sh", "chmod 644 x", "chmod u+rw x", "ls -R x"],
  }),
  high({
    name: "installs",
    note: "Installs or removes packages: their own programs run while that happens.",
    when: installs,
    matches: [
      "npm install x",
      "pip install x",
      "apt-get install -y x",
      "python3 -m pip install x",
      "bun add x",
      "brew install x",
    ],
    misses: ["npm ls", "pip list", "apt list", "cat install.md", "git add x"],
  }),
  high({
    name: "network",
    note: "Talks to the network.",
    when: (run) =>
      (isOne(run, NETWORK) && !isVersion(run)) ||
      (run.program === "openssl" && run.args.some((arg) => /^s_(?:client|server|time)$/.test(arg))),
    matches: [
      "curl https://x",
      "ls; curl x",
      "a && nc h 1",
      "env curl x",
      "scp a h:b",
      "ssh h ls",
      "rsync a h:b",
      "timeout 5 wget x",
    ],
    misses: ["curl --version", 'echo "curl x"', "grep -rn curl src", "openssl version", "cat wget.log"],
  }),
  high({
    name: "signals-processes",
    note: "Ends processes or sends them signals.",
    when: ({ program, args }) =>
      program === "fuser"
        ? has(args, "k", "--kill")
        : PROCESSES.has(program) && !/^(?:-l|-L|-0|--list)$/.test(args[0] ?? ""),
    matches: ["kill 4242", "pkill node", "killall -9 bun", "fuser -k 80/tcp"],
    misses: ["fuser 80/tcp", "pgrep node", "kill -l", "kill -0 4242", "ps aux"],
  }),
  high({
    name: "infrastructure",
    note: "Changes containers, clusters or clouds.",
    when: (run) => isOne(run, INFRASTRUCTURE) && !isVersion(run) && !looks(run),
    matches: [
      "docker run -v /:/host alpine",
      "kubectl delete pod x",
      "terraform apply",
      "helm uninstall x",
      "aws s3 rm s3://x",
    ],
    misses: ["docker ps", "docker --version", "cat terraform.tf", "grep -r kubectl docs"],
  }),
  high({
    name: "system-settings",
    note: "Changes services, schedules, mounts, networks or other settings of the system.",
    when: (run) => isOne(run, SYSTEM) && !isVersion(run) && !looks(run),
    matches: [
      "systemctl stop x",
      "crontab jobs",
      "mount /dev/sdb /mnt",
      "at now",
      "sysctl -w a=1",
      "ip link set eth0 down",
    ],
    misses: ["systemctl status x", "crontab -l", "mount", "ip addr", "cat mount.md"],
  }),
  high({
    name: "interpreter",
    note: "Runs a program in a language that is not looked into, or a script from a file or a pipe.",
    when: interprets,
    matches: [
      "python3 x.py",
      "node -e 'x'",
      "perl -pe s/a/b/ f",
      "bash run.sh",
      "cat x | sh",
      "source x",
      ". ./x",
      "eval ls",
      "php x.php",
    ],
    misses: ["python3 --version", "bash -c 'ls'", "cat python.md", "grep perl x", "which node"],
  }),
  high({
    name: "runs-file",
    note: "Runs a file by its path: what is in it is not looked at.",
    when: runsFile,
    matches: ["./run.sh", "/tmp/git status", "~/bin/x", "../x", "env ./x", "find . -exec ./x {} +"],
    misses: ["/bin/ls", "/usr/bin/env ls", "cat ./run.sh", "/usr/./bin/ls"],
  }),
  high({
    name: "build-tool",
    note: "Runs what a file of the project says.",
    when: builds,
    matches: ["make", "npm test", "bun run x", "cargo build", "npx tsc", "go test ./...", "pytest"],
    misses: ["make --version", "npm ls", "cat Makefile", "npm --version", "go vet"],
  }),
  high({
    name: "chooses-loading",
    note: "Sets a variable that decides which programs, libraries or settings are used.",
    when: choosesLoading,
    matches: [
      "PATH=. ls",
      "LD_PRELOAD=./x.so ls",
      "export GIT_SSH_COMMAND=x",
      "env NODE_OPTIONS=x ls",
      "BASH_ENV=x bash -c ls",
    ],
    misses: [
      "FOO=1 ls",
      "PAGER=cat git log",
      "NODE_ENV=test ls",
      "GIT_PAGER=cat git diff",
      "echo PATH=x",
      "IFS=, read -r a b",
    ],
  }),
  high({
    name: "changes-language",
    note: "Gives words another meaning for what follows.",
    when: changesLanguage,
    matches: ["alias ls=rm", "enable -f x y", "hash -p /tmp/x ls", "shopt -s expand_aliases"],
    misses: ["alias", "set -euo pipefail", "shopt -s nullglob", "hash"],
  }),
  high({
    name: "filter-starts-programs",
    note: "A script of sed or awk that starts programs, writes outside the workspace, or cannot be read.",
    when: filterStarts,
    matches: [
      "sed 's/x/y/e' f",
      "sed '1e ls' f",
      "awk 'BEGIN{system(\"ls\")}'",
      "awk '{print | \"sh\"}' f",
      "sed -f x f",
      "sed 'w /srv/x' f",
    ],
    misses: [
      "sed -n '1,5p' f",
      "sed s/exec/e/g f",
      "awk '{print $1}' f",
      "awk -F: '$3 > 5 {print $1}' f",
      "awk '/a|b/' f",
      "sed -i s/a/b/ f",
    ],
  }),
  high({
    name: "starts-programs",
    note: "An option that makes the program start another one.",
    when: ({ program, args }) => {
      const pattern = STARTERS.get(program);
      return pattern !== undefined && args.some((arg) => pattern.test(arg));
    },
    matches: ["tar cf a b --checkpoint=1 --checkpoint-action=exec=ls", "rg --pre x y", "man -P x y", "vim -c ':!ls' x"],
    misses: ["tar czf a.tgz b", "rg pre x", "man ls", "sort x"],
  }),
  high({
    name: "writes-outside",
    note: "Writes outside the workspace, or where it cannot be told.",
    when: (run) => writtenBy(run).some((path) => reachOf(path, run.standing) === "outside"),
    matches: [
      "echo x > /etc/motd",
      "cp a ../b",
      "tee /srv/x",
      "touch /x",
      "echo x > $f",
      "mv a /opt/b",
      "cat a >| ~/../b",
    ],
    misses: [
      "echo x > out.txt",
      "ls 2>/dev/null",
      "cp a b",
      "echo x > /tmp/x",
      "mkdir -p src/x",
      "cat < /etc/hosts",
      "ls 2>&1",
    ],
  }),
  high({
    name: "reads-secrets",
    note: "Reads a place where keys and passwords usually lie.",
    when: ({ args, opened, standing }) =>
      [...args, ...opened.map(({ path }) => path)].some((path) => isSecretPlace(path, standing)),
    matches: [
      "cat /etc/shadow",
      "cat /proc/self/environ",
      "cp ~/.ssh/id_ed25519 x",
      "tar cf x ~/.aws/credentials",
      "sort < /etc/shadow",
    ],
    misses: ["ls /etc", "cat /etc/hosts", "cat /proc/cpuinfo", "cat ~/.ssh/known_hosts", "echo shadow"],
  }),
  high({
    name: "cannot-classify",
    note: "Cannot be told from the text what this runs.",
    of: ({ opaque }) => opaque.size > 0,
    matches: [
      "$x -rf y",
      'echo "a',
      "$(cat x)",
      "{rm,-r,x}",
      "/bin/r? x",
      'echo "${x@P}"',
      "echo ${!x}",
      "zsh -c ls",
      "bash -c $x",
      "if",
    ],
    misses: [
      "ls $HOME",
      'echo "$(date)"',
      'for f in *; do cat "$f"; done',
      "ls {a,b}",
      "echo ${x:-y}",
      "cat <<E\nhello\nE",
    ],
  }),
];
