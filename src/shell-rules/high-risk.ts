import { SHELL_RULE_NOTES as NOTES } from "../core/shell-rule-notes.ts";
import { NETWORK } from "./network.ts";
import { HIGH, rulesOf } from "./rule.ts";
import { FD_EXEC } from "./wrappers.ts";

const INSTALLERS =
  "apt apt-get aptitude dpkg rpm yum dnf zypper apk pacman yay brew port snap flatpak nix-env emerge opkg";
const PACKAGES = `npm pnpm yarn bun pip pipx uv poetry pdm conda mamba gem bundle cargo go composer nuget easy_install
  cpan luarocks pipenv hatch rye pixi rustup corepack volta asdf mise nvm pyenv rbenv fnm sdk nix guix nix-shell devbox
  stack cabal lein opam`;
/** Options of `journalctl` that change something: logs, keys, its catalog or cursor files. */
export const JOURNAL_CHANGES =
  "--vacuum-size --vacuum-time --vacuum-files --rotate --flush --relinquish-var --setup-keys --update-catalog --cursor-file";

/** Calls that always ask: an approval for the session does not cover them. */
export const HIGH_RISK = rulesOf(HIGH, [
  {
    id: "removes-recursively",
    note: NOTES["removes-recursively"],
    calls: [
      { programs: "rm", options: "-rR --recursive" },
      { programs: "rm", operand: "outside the workspace" },
      { programs: "rm", operand: "not named" },
      { programs: "find", test: "removes what it finds" },
      { programs: "rsync", argument: /^--(?:del|remove-source-files$)/ },
    ],
    matches: ["rm -rf build", "rm --recursive x", "find . -name '*.log' -delete", "ls | xargs rm", "/bin/rm -fR x"],
    misses: ["rm file.txt", "rm -f a b", "rmdir empty", "find . -name '*.ts'", "git rm x", "rm -- -r"],
  },
  {
    id: "overwrites",
    note: NOTES.overwrites,
    calls: [
      {
        programs: "dd truncate shred wipe srm fallocate wipefs sgdisk fdisk parted cryptsetup",
        argument: /^/,
        unless: "asks for the version",
      },
      { test: "prepares a file system" },
    ],
    matches: ["dd if=a of=b", "truncate -s 0 x", "shred -u x"],
    misses: ["cat truncate.md", "dd --help", "git add x"],
  },
  {
    id: "runs-file",
    note: NOTES["runs-file"],
    calls: [{ test: "is a file" }],
    matches: ["./run.sh", "/tmp/git status", "~/bin/x", "../x", "env ./x", "find . -exec ./x {} +"],
    misses: ["/bin/ls", "/usr/bin/env ls", "cat ./run.sh", "/usr/./bin/ls"],
  },
  {
    id: "chooses-loading",
    note: NOTES["chooses-loading"],
    runs: "arguments",
    calls: [{ test: "chooses what is loaded" }],
    matches: ["PATH=. ls", "LD_PRELOAD=./x.so ls", "export GIT_SSH_COMMAND=x", "env NODE_OPTIONS=x ls"],
    misses: ["FOO=1 ls", "PAGER=cat git log", "NODE_ENV=test ls", "GIT_PAGER=cat git diff", "echo PATH=x"],
  },
  {
    id: "changes-language",
    note: NOTES["changes-language"],
    runs: "arguments",
    calls: [
      { programs: "alias", argument: /=/ },
      { programs: "enable bind complete", argument: /^/ },
      { programs: "shopt", argument: /^(?:expand_aliases|extdebug|sourcepath|lastpipe|cdable_vars)$/ },
      { programs: "hash", options: "-p" },
    ],
    matches: ["alias ls=rm", "enable -f x y", "hash -p /tmp/x ls", "shopt -s expand_aliases"],
    misses: ["alias", "set -euo pipefail", "shopt -s nullglob", "hash"],
  },
  {
    id: "filter-starts-programs",
    note: NOTES["filter-starts-programs"],
    runs: "arguments",
    calls: [{ programs: "sed gsed awk gawk mawk nawk", test: "starts programs in its script" }],
    matches: ["sed 's/x/y/e' f", "sed '1e ls' f", "awk 'BEGIN{system(\"ls\")}'", "awk '{print | \"sh\"}' f"],
    misses: ["sed -n '1,5p' f", "sed s/exec/e/g f", "awk '{print $1}' f", "awk -F: '$3 > 5 {print $1}' f"],
  },
  {
    id: "starts-programs",
    note: NOTES["starts-programs"],
    runs: "arguments",
    calls: [
      { programs: "tar gtar bsdtar", test: "starts programs as tar" },
      { programs: "sqlite3", test: "runs commands of SQLite" },
      { programs: "fd fdfind", argument: FD_EXEC },
      { programs: "sort", argument: /^--com/ },
      { programs: "split", argument: /^--fil/ },
      { programs: "install", argument: /^--strip-/ },
      { programs: "cloc", argument: /^--extract-/ },
      { programs: "cpio", argument: /^--rsh/ },
      { programs: "rg", argument: /^--(?:pre|hostname-bin)(?:=|$)/ },
      { programs: "man", argument: /^(?:-[a-zA-Z7]{0,16}[PHC]|--(?:pag|con|html))/ },
      { programs: "less", argument: /^(?:-[a-zA-Z]{0,16}k|--(?:lesskey|cmd)|\+{1,2}(?:.{0,256}[!|]|v))/ },
      {
        // Matches all options except those that open a file in a view mode or at a line.
        programs: "vim vi nvim view vimdiff nvimdiff gvim gvimdiff rvim rview evim",
        argument: /^(?:-(?![RnNbdoOpvyZmMhV]{1,8}$|-(?:clean|version|help)?$|$|version$)|\+(?![0-9]{0,8}$))/,
      },
      { programs: "ag ack bat batcat", argument: /^--pag/ },
      { programs: "zip", argument: /^-[a-zA-Z0-9]{0,16}T|^--(?:unz|te)/ },
      { programs: "jq", argument: /^-[a-zA-Z]{0,16}L|^--library-path/ },
      { programs: "more", argument: /^\+.{0,256}!/ },
      { programs: "gpg gpgv", argument: /^--(?:agent-p|photo-v|dirmngr-p|exec-p|pinentry-p)/ },
      { programs: "strace ltrace", argument: /^(?:-[a-zA-Z]{0,8}o)?\s{0,4}[|!]/ },
      {
        // A plain replacement runs no code; other expressions may.
        programs: "rename prename file-rename perl-rename",
        argument:
          /^(?:s|y|tr)[^A-Za-z0-9].{0,256}[^A-Za-z0-9][gimsx]{0,4}e|`|@\{|\$\{|\(\?\??\{|^(?!(?:s|y|tr)[/|#,!]).{0,64}[;{(]/,
      },
      { programs: "parallel", argument: /^(?:-S|--ssh|--slf|--basefile|--trc|--transfer|--return)/ },
      {
        programs: "tmux",
        argument: /^(?!-V$|ls$|list-[a-z]{1,16}$|has-session$|display-message$|show-options$|-[tF]$)./,
      },
      { programs: "screen", argument: /^(?!-ls$|-list$|-v$)./ },
      { programs: "go", argument: /^--?(?:toolexec|vettool|exec|modfile|overlay)(?:=|$)/ },
      { programs: "cargo", argument: /^--config(?:=|$)/ },
      { programs: "mapfile readarray", argument: /^-t?C/ },
      { programs: "compgen", argument: /^-[abcdefgjksuv]{0,8}[CF]/ },
      { programs: "patch", argument: /^(?:-[bcelnNRstuvEfZT]{0,8}e|--ed$)/ },
      { programs: "dc", argument: /!|^-f|^--f|^[^-]/ },
      { programs: "ssh-keygen", argument: /^-[Dw]/ },
      { programs: "openssl", argument: /^-(?:engine|provider)/ },
      { programs: "gcc g++ cc c++ clang clang++ ld", argument: /^-(?:wrapper|fplugin|specs|B|plugin)/ },
      { programs: "nm objdump ar ranlib gcc-nm gcc-ar", argument: /^--plugin/ },
    ],
    matches: ["tar cf a b --checkpoint=1 --checkpoint-action=exec=ls", "rg --pre x y", "man -P x y", "vim -c ':!ls' x"],
    misses: ["tar czf a.tgz b", "rg pre x", "man ls", "sort x"],
  },
  {
    id: "writes-outside",
    note: NOTES["writes-outside"],
    calls: [{ writes: "outside the workspace" }, { changes: true, test: "writes an unnamed path outside" }],
    matches: ["echo x > /etc/motd", "cp a ../b", "tee /srv/x", "touch /x", "echo x > $f", "mv a /opt/b", "gzip /etc/x"],
    misses: ["echo x > out.txt", "ls 2>/dev/null", "cp a b", "echo x > /tmp/x", "mkdir -p src/x", "cat < /etc/hosts"],
  },
  {
    id: "writes-start-files",
    note: NOTES["writes-start-files"],
    calls: [{ writes: "start file" }, { changes: true, test: "writes an unnamed start file" }],
    matches: ["echo x >> .git/config", "cp x .git/hooks/pre-commit", "tee -a ~/.bashrc < x"],
    misses: ["cat .git/config", "ls .git/hooks", "echo x > .gitignore", "echo x > config", "cat ~/.bashrc"],
  },
  {
    id: "reads-secrets",
    note: NOTES["reads-secrets"],
    calls: [
      { test: "reads secrets" },
      { programs: "find", test: "finds secrets" },
      { programs: "pass" },
      {
        programs: "gopass secret-tool keyring bw op lpass sops chamber",
        argument: /^(?:show|ls|get|lookup|search|read|item|list|decrypt|-d|--decrypt|export)$/,
      },
      { programs: "security", argument: /^(?:find-|dump-|export)/ },
      { programs: "gpg", argument: /^--(?:export-secret|decrypt|delete-secret)|^-[a-z]{0,4}d[a-z]{0,4}$/ },
      { programs: "git", text: /^credential(?: |$)/ },
    ],
    matches: [
      ...["cat /etc/shadow", "cat /proc/self/environ", "cp ~/.ssh/id_ed25519 x", "tar cf x ~/.aws/credentials"],
      ...["x=shadow; cat /etc$unset/$x", "cat /etc/$unset/shadow"],
    ],
    misses: ["ls -l /etc/shadow", "grep -rn /etc/shadow docs", "cat *.md", "ls /etc", "cat /etc/hosts", "echo shadow"],
  },
  {
    id: "cannot-classify",
    note: NOTES["cannot-classify"],
    calls: [],
    unclear: true,
    matches: ["$x -rf y", 'echo "a', "$(cat x)", "{rm,-r,x}", "/bin/r? x", `echo "\${x@P}"`, `echo \${!x}`, "if"],
    misses: ["ls $HOME", 'echo "$(date)"', 'for f in *; do cat "$f"; done', "ls {a,b}", `echo \${x:-y}`],
  },
  {
    id: "gains-privileges",
    note: NOTES["gains-privileges"],
    calls: [
      {
        programs: `sudo doas su runuser pkexec gosu su-exec setcap capsh setpriv usermod useradd userdel groupadd
          groupdel groupmod passwd chpasswd gpasswd visudo adduser deluser chroot unshare nsenter newgrp chsh`,
      },
    ],
    matches: ["sudo ls", "doas ls", "su -c ls", "env sudo ls", "chroot x ls"],
    misses: ["echo sudo", 'git commit -m "remove sudo; reboot"', "cat sudo.md", "ls sudoers"],
  },
  {
    id: "changes-rights",
    note: NOTES["changes-rights"],
    calls: [
      { programs: "chmod chown chgrp", options: "-R --recursive" },
      { programs: "setfacl" },
      { programs: "chmod", test: "opens files to everybody" },
    ],
    matches: ["chmod -R u+w x", "chown -R me x", "chmod 777 x", "chmod u+s x", "chmod o+w x"],
    misses: ["chmod +x run.sh", "chmod 644 x", "chmod u+rw x", "ls -R x"],
  },
  {
    id: "installs",
    note: NOTES.installs,
    calls: [
      { programs: INSTALLERS, unless: "asks the installer", changes: true },
      { programs: PACKAGES, test: "installs packages", changes: true },
      { programs: PACKAGES, test: "changes settings of packages" },
      { text: /(?:^| )-m pip(?: |$)/, changes: true },
    ],
    matches: ["npm install x", "pip install x", "apt-get install -y x", "python3 -m pip install x", "bun add x"],
    misses: ["npm config get registry", "npm ls", "pip list", "apt list", "cat install.md", "git add x"],
  },
  {
    id: "network",
    note: NOTES.network,
    calls: [
      { programs: [...NETWORK].join(" "), unless: "stays on this machine" },
      { programs: PACKAGES, test: "names an address" },
      { programs: "gpg", options: "--recv-keys --receive-keys --send-keys --search-keys --refresh-keys --keyserver" },
      { test: "opens a socket", unless: "only prints" },
      { programs: "getent", verbs: "hosts, ahosts, ahostsv4, ahostsv6, networks" },
      { programs: "logger", options: "-n --server" },
      { programs: "openssl", argument: /^(?:s_(?:client|server|time)|ocsp|cmp|-url|-server|-proxy)$/ },
    ],
    matches: ["curl https://x", "ls; curl x", "a && nc h 1", "env curl x", "scp a h:b", "ssh h ls", "rsync a h:b"],
    misses: ["curl --version", 'echo "curl x"', "grep -rn curl src", "openssl version", "cat wget.log"],
  },
  {
    id: "signals-processes",
    note: NOTES["signals-processes"],
    calls: [
      { programs: "fuser", options: "-k --kill" },
      { programs: "kill pkill killall xkill skill", text: /^(?!(?:-l|-L|-0|--list)(?: |$))/ },
    ],
    matches: ["kill 4242", "pkill node", "killall -9 bun", "fuser -k 80/tcp"],
    misses: ["fuser 80/tcp", "pgrep node", "kill -l", "kill -0 4242", "ps aux"],
  },
  {
    id: "infrastructure",
    note: NOTES.infrastructure,
    calls: [
      {
        programs: `docker podman nerdctl buildah skopeo kubectl oc helm terraform tofu terragrunt pulumi ansible
          ansible-playbook vagrant nomad consul vault aws gcloud gsutil az doctl heroku vercel netlify fly flyctl eksctl
          kops minikube kind argocd flux istioctl crictl ctr lxc virsh docker-compose packer wrangler firebase
          gcloud-crc32c`,
        changes: true,
      },
    ],
    matches: ["docker run -v /:/host alpine", "kubectl delete pod x", "terraform apply", "helm uninstall x"],
    misses: ["docker ps", "docker --version", "cat terraform.tf", "grep -r kubectl docs"],
  },
  {
    id: "system-settings",
    note: NOTES["system-settings"],
    runs: "arguments",
    calls: [
      {
        programs: `systemctl service launchctl at batch umount swapon swapoff sysctl iptables ip6tables nft ufw
          firewall-cmd route ifconfig hostnamectl timedatectl loginctl update-rc.d chkconfig rc-service losetup
          logrotate atrm setenforce auditctl mknod chattr update-alternatives ldconfig localectl systemd-run tc ebtables
          arptables dmsetup lvremove vgremove pvremove lvcreate pvcreate hdparm nvme smartctl fsck e2fsck resize2fs
          tune2fs zpool zfs btrfs mdadm badblocks fstrim`,
        changes: true,
      },
      { programs: "crontab mount ip", changes: true },
      { programs: "date", test: "sets the clock" },
      { programs: "journalctl", options: JOURNAL_CHANGES },
    ],
    matches: ["date -s tomorrow", "systemctl stop x", "crontab jobs", "mount /dev/sdb /mnt", "at now", "sysctl -w a=1"],
    misses: ["systemctl status x", "crontab -l", "date -Iseconds", "date -d yesterday +%F", "mount", "ip addr"],
  },
  {
    id: "interpreter",
    note: NOTES.interpreter,
    runs: "input",
    calls: [{ test: "runs code" }],
    matches: ["python3 x.py", "node -e 'x'", "perl -pe s/a/b/ f", "bash run.sh", "cat x | sh", "source x", ". ./x"],
    misses: ["python3 --version", "bash -c 'ls'", "cat python.md", "grep perl x", "which node"],
  },
  {
    id: "build-tool",
    note: NOTES["build-tool"],
    runs: "arguments",
    calls: [
      {
        programs: `make gmake cmake ninja meson bazel bazelisk gradle gradlew mvn mvnw ant rake just task tox nox invoke
          fab grunt gulp npx bunx pnpx run-parts uvx tsx ts-node pytest jest vitest mocha phpunit rspec ctest sbt mix
          dotnet xcodebuild buck scons waf turbo nx lerna nodemon pm2 forever uvicorn gunicorn flask django-admin rails
          honcho foreman overmind zig nim crystal dart flutter dune py.test electron zx esr swc-node babel-node coffee
          kotlinc qmake autoreconf watchman-make supervisorctl direnv`,
        changes: true,
      },
      { programs: PACKAGES, test: "runs a project's code", changes: true },
    ],
    matches: ["make", "pytest -v", "make help", "npm test", "bun run x", "cargo build", "npx tsc", "go test ./..."],
    misses: ["make --version", "npm ls", "cat Makefile", "npm --version", "go vet"],
  },
]);

/** Calls of git that always ask. */
export const GIT = rulesOf(HIGH, [
  {
    id: "git-destroys",
    note: NOTES["git-destroys"],
    calls: [
      { git: "prune filter-branch replace" },
      { git: "push", options: "-fd --force --force-with-lease --delete --mirror --prune" },
      { git: "push", argument: /^[+:]./ },
      { git: "fetch pull", argument: /^\+./ },
      { git: "reset", options: "--hard --merge --keep" },
      { git: "clean", options: "-fdxX --force", without: "-n --dry-run" },
      { git: "checkout", options: "-fB --force --force-create --discard-changes" },
      { git: "switch", options: "-fC --force --force-create --discard-changes" },
      { git: "checkout switch", operand: "work tree" },
      { git: "checkout-index", options: "-f --force --prefix" },
      { git: "read-tree", options: "-u --reset" },
      { git: "restore", operand: "work tree", without: "-S --staged" },
      { git: "restore", operand: "work tree", options: "-W --worktree" },
      { git: "branch", options: "-DMCf --force" },
      { git: "stash", verbs: "drop, clear" },
      { git: "reflog", verbs: "expire, delete" },
      { git: "update-ref", options: "-d --delete --stdin" },
      { git: "worktree remote", verbs: "remove, rm, prune" },
      { git: "submodule", verbs: "deinit", options: "-f --force --all" },
      { git: "rm", options: "-rf --force", never: /^--cached$/ },
      { git: "gc", argument: /^--prune/ },
    ],
    matches: ["git push --force", "git reset --hard HEAD~3", "git clean -fdx", "git -C x push -f", "git branch -D x"],
    misses: ["git push origin main", "git reset HEAD x", "git clean -n", "git log --grep='push --force'"],
  },
  {
    id: "git-starts-programs",
    note: NOTES["git-starts-programs"],
    runs: "arguments",
    calls: [{ programs: "git", test: "git starts programs" }],
    matches: ["git -c core.pager='sh x' log", "git -c alias.x='!rm -rf ~' x", "git rebase --exec make main"],
    misses: ["git -c color.ui=false log", "git -c pager.log=false log", "git log --grep=exec", "git rebase main"],
  },
  {
    id: "git-reaches-elsewhere",
    note: NOTES["git-reaches-elsewhere"],
    calls: [
      { git: "clone send-email daemon request-pull" },
      { git: "lfs", text: /^(?!(?:ls-files|status|env|version)(?: |$))/ },
      { git: "remote", verbs: "add, set-url, update" },
      { git: "submodule", verbs: "add, update, sync, set-url" },
      { git: "archive", options: "--remote" },
      { git: "push fetch pull ls-remote", test: "git names an address" },
    ],
    matches: ["git clone https://x/y", "git remote add o git@h:x", "git push https://h/x main", "git fetch ../other"],
    misses: ["git push origin main", "git fetch", "git remote -v", "git pull origin feature/x"],
  },
  {
    id: "git-settings",
    note: NOTES["git-settings"],
    runs: "arguments",
    calls: [{ programs: "git", test: "git gets settings" }],
    matches: ["git config alias.x '!sh'", "git config core.hooksPath .x", "git config --global user.name x"],
    misses: ["git config user.name x", "git config branch.main.remote origin", "git config --unset branch.main.remote"],
  },
  {
    id: "git-unknown-verb",
    note: NOTES["git-unknown-verb"],
    calls: [{ programs: "git", unless: "git has this verb" }],
    matches: ["git up", "git $x", "git my-alias"],
    misses: ["git", "git --version", "git status", "git commit -m up"],
  },
]);
