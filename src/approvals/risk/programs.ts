import { looksOnly } from "./looks.ts";
import { names, words } from "./names.ts";
import { asksInstaller, isVersion, JOURNAL_CHANGES, setsClock } from "./reads.ts";
import { high, type ShellRule } from "./rule.ts";
import { has, type Invocation, isOne, operandsOf } from "./shell/invocation.ts";
import { INTERPRETERS, isShell, NETWORK, opensSocket, PRINTERS } from "./shell/network.ts";
import { UNKNOWN } from "./shell/word.ts";

const PRIVILEGES = names(
  "sudo doas su runuser pkexec gosu su-exec setcap capsh setpriv usermod useradd userdel groupadd groupdel groupmod passwd",
  "chpasswd gpasswd visudo adduser deluser chroot unshare nsenter newgrp chsh",
);
const INSTALLERS = names(
  "apt apt-get aptitude dpkg rpm yum dnf zypper apk pacman yay brew port snap flatpak nix-env emerge opkg",
);
const PACKAGES = names(
  "npm pnpm yarn bun pip pipx uv poetry pdm conda mamba gem bundle cargo go composer nuget easy_install cpan luarocks",
  "pipenv hatch rye pixi rustup corepack volta asdf mise nvm pyenv rbenv fnm sdk nix guix nix-shell devbox stack cabal lein opam",
);
const PACKAGE_VERBS = names(
  "i in ins install add ci un uninstall remove rm update upgrade up link unlink publish get sync download require",
  "create init self-update tool venv",
);
const PACKAGE_LISTS = names(
  "ls list ll la view info show outdated audit why search freeze config root prefix bin whoami help metadata tree",
  "version versions current which index",
);
/** Words behind which another one lists. */
const HOLDS_LISTS = names(
  "toolchain component target plugin plugins python cache store env profile channel registry self pm",
);
/** What else only looks, or puts the text of programs in order. */
const LISTS_OF_ONE = /^(?:go (?:env|vet|fmt|doc)|cargo fmt|(?:pip|poetry|pdm|uv) check|conda env|bun pm)$/;
const BUILDERS = names(
  "make gmake cmake ninja meson bazel bazelisk gradle gradlew mvn mvnw ant rake just task tox nox invoke fab grunt gulp npx bunx pnpx",
  "run-parts uvx tsx ts-node pytest jest vitest mocha phpunit rspec ctest sbt mix dotnet xcodebuild buck scons waf turbo nx lerna",
  "nodemon pm2 forever uvicorn gunicorn flask django-admin rails honcho foreman overmind zig nim crystal dart flutter dune py.test",
  "electron zx esr swc-node babel-node coffee kotlinc qmake autoreconf watchman-make supervisorctl direnv",
);
const PROCESSES = names("kill pkill killall xkill skill");
const INFRASTRUCTURE = names(
  "docker podman nerdctl buildah skopeo kubectl oc helm terraform tofu terragrunt pulumi ansible ansible-playbook vagrant nomad consul",
  "vault aws gcloud gsutil az doctl heroku vercel netlify fly flyctl eksctl kops minikube kind argocd flux istioctl crictl ctr lxc virsh",
  "docker-compose packer wrangler firebase gcloud-crc32c",
);
const SYSTEM = names(
  "systemctl service launchctl crontab at batch mount umount swapon swapoff sysctl iptables ip6tables nft ufw firewall-cmd ip route",
  "ifconfig hostnamectl timedatectl loginctl update-rc.d chkconfig rc-service losetup logrotate atrm setenforce auditctl mknod chattr",
  "update-alternatives ldconfig localectl systemd-run tc ebtables arptables dmsetup lvremove vgremove pvremove lvcreate pvcreate",
  "hdparm nvme smartctl fsck e2fsck resize2fs tune2fs zpool zfs btrfs mdadm badblocks fstrim",
);
const SYSTEM_LOOKS: ReadonlyMap<string, RegExp> = new Map([
  ["crontab", /^-l$/],
  ["ip", /^(?:a|addr|address|link|route|r|neigh|-br|-brief|-[46sj])$/],
]);

/** Settings of package managers name servers, shells and programs. */
function setsPackages(run: Invocation): boolean {
  const [verb = "", what = ""] = operandsOf(run.args);
  if (!isOne(run, PACKAGES)) return false;
  if (run.program === "go") return verb === "env" && has(run.args, "wu");
  if (run.program === "conda" || run.program === "pnpm") {
    if (verb === "env" && !/^(?:list|ls|export)?$/.test(what)) return true;
  }
  const isSet = verb === "config" && /^(?:set|edit|delete|unset|fix)$/.test(what);
  return isSet || (run.program === "poetry" && verb === "config" && what !== "" && !has(run.args, "", "--list"));
}

function installs(run: Invocation): boolean {
  const { args } = run;
  if (isOne(run, INSTALLERS)) return !asksInstaller(run.program, run.args);
  if (
    /^(?:npm|pnpm|yarn)$/.test(run.program) &&
    args.includes("audit") &&
    (args.includes("fix") || has(args, "", "--fix"))
  )
    return true;
  if (!isOne(run, PACKAGES)) return run.args.some((arg, at) => arg === "pip" && args[at - 1] === "-m");
  if (/^(?:ls|list|ll|la|view|info|show|outdated|why|search|help|tree|config|audit)$/.test(args[0] ?? "")) return false;
  // Without a word yarn installs.
  if (run.program === "yarn" && operandsOf(args).length === 0 && !isVersion(run)) return true;
  return args.some((arg) => PACKAGE_VERBS.has(arg) || arg.startsWith(UNKNOWN));
}

function builds(run: Invocation): boolean {
  if (isVersion(run) || looksOnly(run)) return false;
  if (isOne(run, BUILDERS)) return true;
  if (!isOne(run, PACKAGES)) return false;
  const [verb, what] = run.args.filter((arg) => !arg.startsWith("-"));
  if (verb === undefined || PACKAGE_VERBS.has(verb)) return false;
  if (HOLDS_LISTS.has(verb) && /^(?:list|ls|show|status)$/.test(what ?? "")) return false;
  // A new version runs the scripts of the project around it.
  if (verb === "version" && what !== undefined) return /^(?:npm|pnpm|yarn)$/.test(run.program);
  return !PACKAGE_LISTS.has(verb) && !LISTS_OF_ONE.test(`${run.family} ${verb}`);
}

function interprets(run: Invocation): boolean {
  const { program, args } = run;
  if (program === "source" || program === ".") return true;
  if (program === "eval") return args.length > 0;
  if (isOne(run, INTERPRETERS)) return !isVersion(run);
  if (program === "busybox" || program === "toybox" || !isShell(run)) return false;
  if (args.some((arg) => /^--(?:rcfile|init-file)(?:=|$)/.test(arg))) return true;
  const takesText = args.some((arg) => /^-[a-zA-Z]*c/.test(arg));
  return !takesText && !isVersion(run);
}

function opensUp({ program, args }: Invocation): boolean {
  if (!names("chmod chown chgrp setfacl").has(program)) return false;
  if (has(args, "R", "--recursive") || program === "setfacl") return true;
  return (
    program === "chmod" &&
    args.some((arg) => /^[0-7]{0,4}[2367]$|^0{0,4}[2-7][0-7]{3}$/.test(arg) || arg.split(",", 16).some(isOpening))
  );
}

/** Of `u+x,o+w` one: lets everybody write, or runs as the owner. */
function isOpening(clause: string): boolean {
  return /^[ugoa]{0,8}[+=][rwxX]{0,8}[st]|^[ugo]{0,4}[oa][ugo]{0,4}[+=][rxX]{0,4}w/.test(clause);
}

const KEY_SERVERS = words("--recv-keys --receive-keys --send-keys --search-keys --refresh-keys --keyserver");

/** `rsync` between two folders of the same machine. */
function copiesHere({ program, args }: Invocation): boolean {
  const starts = args.some((arg) => /^--(?:rsh|rsync-path|daemon|config|files-from)|^-[a-zA-Z]{0,16}[eM]/.test(arg));
  return program === "rsync" && !starts && !args.some((arg) => arg.includes(":") || arg.includes(UNKNOWN));
}

function looks({ program, args }: Invocation): boolean {
  const looking = SYSTEM_LOOKS.get(program);
  if (program === "mount") return args.length === 0;
  if (program === "ip" && looking?.test(operandsOf(args)[0] ?? "") !== true) return false;
  const verbs = args.filter((arg) => /^(?:add|del|delete|set|flush|change|replace)$/.test(arg));
  return looking?.test(args[0] ?? "") === true && verbs.length === 0;
}

/** Programs that always ask, for what they are. */
export const PROGRAMS: readonly ShellRule[] = [
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
    when: (run) => (installs(run) && !looksOnly(run)) || setsPackages(run),
    matches: [
      "npm install x",
      "pip install x",
      "apt-get install -y x",
      "python3 -m pip install x",
      "bun add x",
      "brew install x",
      "apt-get install -y info",
      "npm config set script-shell ./x",
    ],
    misses: ["npm config get registry", "npm ls", "pip list", "apt list", "cat install.md", "git add x"],
  }),
  high({
    name: "network",
    note: "Talks to the network.",
    when: (run) =>
      (isOne(run, NETWORK) && !isVersion(run) && !copiesHere(run)) ||
      (isOne(run, PACKAGES) && run.args.some((arg) => /^[^/]{0,64}[a-z]{2,8}:\/\//.test(arg))) ||
      (/^gpg2?$/.test(run.program) && has(run.args, "", ...KEY_SERVERS)) ||
      (opensSocket(run) && !isOne(run, PRINTERS)) ||
      (run.program === "getent" && /^(?:hosts|ahosts|networks)/.test(operandsOf(run.args)[0] ?? "")) ||
      (run.program === "logger" && has(run.args, "n", "--server")) ||
      (run.program === "openssl" &&
        run.args.some((arg) => /^(?:s_(?:client|server|time)|ocsp|cmp|-url|-server|-proxy)$/.test(arg))),
    matches: [
      "curl https://x",
      "ls; curl x",
      "a && nc h 1",
      "env curl x",
      "scp a h:b",
      "ssh h ls",
      "rsync a h:b",
      "timeout 5 wget x",
      "getent hosts x.example",
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
    when: (run) => isOne(run, INFRASTRUCTURE) && !isVersion(run) && !looksOnly(run),
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
    when: (run) =>
      (isOne(run, SYSTEM) && !isVersion(run) && !looks(run) && !looksOnly(run)) ||
      (run.program === "date" && setsClock(run.args)) ||
      (run.program === "journalctl" && has(run.args, "", ...JOURNAL_CHANGES)),
    matches: [
      "date -s tomorrow",
      "systemctl stop x",
      "crontab jobs",
      "mount /dev/sdb /mnt",
      "at now",
      "sysctl -w a=1",
      "ip link set eth0 down",
    ],
    misses: [
      "systemctl status x",
      "crontab -l",
      "date -Iseconds",
      "date -d yesterday +%F",
      "mount",
      "ip addr",
      "cat mount.md",
    ],
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
    name: "build-tool",
    note: "Runs what a file of the project says.",
    when: builds,
    matches: [
      "make",
      "pytest -v",
      "make help",
      "npm test",
      "bun run x",
      "cargo build",
      "npx tsc",
      "go test ./...",
      "pytest",
    ],
    misses: ["make --version", "npm ls", "cat Makefile", "npm --version", "go vet"],
  }),
];
