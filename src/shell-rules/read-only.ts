import { SHELL_RULE_NOTES as NOTES } from "../core/shell-rule-notes.ts";
import { JOURNAL_CHANGES } from "./high-risk.ts";
import { READS, rulesOf, type ShellRule } from "./rule.ts";
import { FD_EXEC } from "./wrappers.ts";

const CONTAINERS = `-aqflnstd --all --quiet --no-trunc --no-stream --follow --details --timestamps --size --digests
  --no-color --services --status --verbose --tail= --since= --until= --format= --filter= --last= --type= --project-name=
  --file= --human=`;

/** Calls that only read. A call that no row matches changes something, or its program is not known. */
export const READ_ONLY = rulesOf(READS, [
  {
    id: "reads",
    note: NOTES.reads,
    calls: [
      {
        programs: `ls dir vdir cat tac nl head tail wc cut tr comm paste join fold fmt column expand unexpand rev grep
          egrep fgrep zgrep stat du df pwd echo printf true false : test [ [[ basename dirname realpath readlink seq cal
          whoami id groups who w uptime uname arch nproc free ps pgrep pidof lsblk lscpu lsmod lspci lsusb lsns locale
          getconf which type whereis hash jq od hexdump strings md5sum sha1sum sha224sum sha256sum sha384sum sha512sum
          b2sum cksum sum base64 base32 basenc diff diff3 cmp expr factor numfmt look sleep tput clear tsort cd pushd
          popd dirs export declare typeset local readonly return exit break continue shift wait jobs read mapfile
          readarray let unset getopts umask ulimit times set zcat bzcat xzcat getent tokei nm objdump readelf size exa
          eza pstree findmnt namei getfacl zipinfo zdiff zcmp bzgrep xzgrep compgen vmstat iostat ss netstat apropos
          whatis bc caller logname tty alias top lsb_release sw_vers apt-cache dpkg-query mountpoint lsattr getfattr
          addr2line locate plocate man less more yes printenv shopt trap help watch last lastlog`,
      },
      // These start another program, which is compared with the rules too.
      {
        programs: `nohup setsid builtin command exec nice ionice timeout gtimeout stdbuf env xargs gxargs taskset chrt
          chronic unbuffer`,
      },
      { test: "asks for the version" },
    ],
    matches: ["ls -la", "grep -r x .", "env FOO=1 ls", "python3 --version", "jq . f"],
    misses: ["rm x", "frobnicate", "python3 x.py"],
  },
  {
    id: "reads-unless",
    note: NOTES["reads-unless"],
    calls: [
      { programs: "sort", without: "-o --output --compress-program" },
      { programs: "uniq xxd", test: "has one operand at most" },
      { programs: "tee", test: "prints only to the terminal" },
      { programs: "date", unless: "sets the clock" },
      { programs: "dpkg rpm", test: "asks the installer" },
      { programs: "history", without: "-awcds" },
      { programs: "file", without: "-C --compile" },
      { programs: "lsof", without: "-D" },
      { programs: "cloc", without: "--out --report-file --extract-with --write-lang-def --sql" },
      { programs: "scc", without: "-o --output --format-multi" },
      { programs: "hostname", without: "-F --file", test: "has no operand" },
      { programs: "rg", never: /^--(?:pre|hostname-bin)(?:=|$)/ },
      { programs: "ag ack bat", never: /^--pager/ },
      { programs: "tree", without: "-oR --output" },
      { programs: "shuf info time gtime", without: "-o --output" },
      { programs: "yq", without: "-is --inplace --split-exp" },
      {
        programs: "gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4",
        options: "-clt --stdout --to-stdout --list --test",
      },
      { programs: "dmesg", without: "-cCDEn --clear --read-clear --console-off --console-level" },
      { programs: "journalctl", without: `--sync ${JOURNAL_CHANGES}` },
      { programs: "tar", test: "lists an archive" },
      { programs: "unzip", options: "-lvZp" },
      { programs: "find", never: /^-(?:delete|f(?:print|ls)|ok)/ },
      { programs: "fd fdfind", never: FD_EXEC },
      { programs: "sed awk gawk mawk", test: "is plain" },
      { programs: "mount", test: "has no arguments" },
      { programs: "crontab", only: "-l", verbs: "$", test: "has arguments" },
      { programs: "ip", test: "only shows the network" },
      { programs: "git", test: "git only reads" },
    ],
    matches: ["sort f", "find . -name x", "git status", "tar tf a", "sed -n 1p f", "awk '{print $1}' f", "crontab -l"],
    misses: ["sort -o f f", "find . -delete", "git commit -m x", "tar xf a", "sed -i s/a/b/ f", "crontab f"],
  },
  {
    id: "reads-infrastructure",
    note: NOTES["reads-infrastructure"],
    calls: [
      {
        programs: "docker podman nerdctl",
        verbs: `ps, images, version, info, logs, inspect, stats, top, port, diff, history, events, container ls,
          container list, container inspect, container logs, container stats, container top, container port, container
          diff, image ls, image list, image inspect, image history, volume ls, volume list, volume inspect, network ls,
          network list, network inspect, context ls, context list, context inspect, context show, plugin ls, plugin
          list, plugin inspect, system df, system info, compose ps, compose ls, compose logs, compose images, compose
          top, compose port, compose version`,
        only: CONTAINERS,
      },
      { programs: "docker-compose", verbs: "ps, ls, logs, images, top, port, version", only: CONTAINERS },
      {
        programs: "kubectl oc",
        verbs: `get, describe, logs, top, explain, events, api-resources, api-versions, version, cluster-info$, config
          get-contexts, config current-context, config get-clusters, config view$, rollout status, rollout history, auth
          can-i, auth whoami`,
        only: `-AfwpR -n= -o= -l= -c= -L= --all-namespaces --watch --follow --previous --timestamps --all-containers
          --prefix --show-labels --no-headers --ignore-not-found --client --short --recursive --namespace= --output=
          --selector= --field-selector= --container= --tail= --since= --sort-by= --label-columns= --context= --revision=
          --limit= --limit-bytes= --api-group= --namespaced= --timeout= --for=`,
        never: /secret|:\/\/|(?:template|jsonpath)-file|^\/|\0/i,
      },
      {
        programs: "helm",
        verbs: "list, ls, status, history, version, env",
        only: "-AaqdrfmL -n= -o= --all --all-namespaces --short --namespace= --output= --max= --filter= --revision=",
      },
      {
        programs: "systemctl",
        verbs: `status, is-active, is-enabled, is-failed, list-units, list-unit-files, list-timers, list-sockets,
          list-jobs, list-dependencies, list-machines, list-paths, show, cat, get-default`,
        only: `-alqr -n= -p= -t= -o= --user --system --no-pager --full --all --quiet --failed --plain --no-legend
          --reverse --value --type= --state= --lines= --property= --output=`,
      },
      { programs: "sysctl", only: "-abnNqe --all --names --values --ignore", never: /=|\0/, test: "has arguments" },
      { programs: "stty", verbs: "$, size$, speed$", only: "-ag --all --save", test: "has arguments" },
    ],
    matches: ["docker ps -a", "kubectl get pods -n x -o wide", "helm list -A", "systemctl status x", "sysctl -a"],
    misses: ["docker rm x", "kubectl get secrets", "kubectl delete pod x", "helm uninstall x", "sysctl a=1"],
  },
  {
    id: "reads-packages",
    note: NOTES["reads-packages"],
    calls: [
      {
        programs: "npm",
        verbs: "ls, list, ll, la, why, explain, root, prefix, bin, config list, config get, config ls, pkg get, run$",
        only: `-galp --global --all --json --long --parseable --prod --production --dev --workspaces --depth= --omit=
          --include=`,
      },
      {
        programs: "pip",
        verbs: "list, show, freeze, check",
        only: "-fluv --outdated --user --local --files --not-required --verbose --disable-pip-version-check --format=",
      },
      {
        programs: "uv",
        verbs: "pip list, pip show, pip freeze, pip check, pip tree",
        only: "-fluv --outdated --user --local --files --verbose --format=",
      },
      {
        programs: "cargo",
        verbs: "tree, metadata, pkgid, locate-project",
        only: `-d -e= -p= -i= --offline --locked --frozen --no-deps --all-features --no-default-features --workspace
          --duplicates --depth= --edges= --invert= --package= --prefix= --format-version= --format= --features=
          --charset=`,
      },
      { programs: "cargo", verbs: "$", only: "--list", test: "has arguments" },
      { programs: "go", verbs: "list", only: "-m: -u: -json: -deps: -e: -versions: -find: -f=" },
      { programs: "go", verbs: "env, doc", only: "-json: -all: -src: -short: -c: -changed:" },
      { programs: "go", verbs: "mod graph, mod why, mod verify", only: "-m:" },
      { programs: "gem", verbs: "list, environment, which", only: "-alid --local --all --details --versions" },
      {
        programs: "rustup",
        verbs: "show, toolchain list, component list, target list",
        only: "-v --verbose --installed",
      },
      { programs: "rustc", verbs: "$", only: "-vV --version --verbose --print=", test: "has arguments" },
      { programs: "bun", verbs: "pm ls, pm bin, pm cache$, pm hash", only: "-g --all" },
      { programs: "dotnet", verbs: "$", only: "--info --list-sdks --list-runtimes --version", test: "has arguments" },
      {
        programs: "openssl",
        verbs: "x509$, crl$, req$",
        only: `-noout: -text: -subject: -issuer: -dates: -enddate: -startdate: -serial: -fingerprint: -sha1: -sha256:
          -pubkey: -modulus: -purpose: -email: -verify: -in= -ext= -inform= -checkend= -nameopt=`,
        never: /:\/\//,
      },
      { programs: "openssl", verbs: "version$", only: "-abdefopv" },
      { programs: "7z 7za 7zz", verbs: "l", only: "-slt: -ba: -bd:" },
      { programs: "shellcheck", only: "-ax -s= -f= -S= -e= -C=", never: /^--rcfile/, test: "has arguments" },
      { programs: "gofmt", only: "-leds", test: "has arguments" },
    ],
    matches: ["npm ls --depth=0", "pip list", "cargo tree -i serde", "go list -m all", "gofmt -l ."],
    misses: ["npm install x", "pip install x", "go list -toolexec=./x .", "gofmt -w x", "openssl x509 -in c -out d"],
  },
]);

/** Every call that no row above matches; and shells, for which no approval is remembered. */
export const CHANGES: readonly ShellRule[] = [
  {
    verdict: "none",
    risk: "medium",
    rememberable: true,
    id: "changes",
    note: NOTES.changes,
    calls: [{ changes: true }, { test: "writes files" }],
    matches: ["rm file.txt", "mv a b", "mkdir x", "sed -i s/a/b/ f", "echo x > f", "tee f", "git commit -m x"],
    misses: ["ls -la", "cat f", "git status", "grep -r x .", "find . -name '*.ts'", "wc -l f 2>/dev/null"],
  },
  {
    verdict: "none",
    risk: "medium",
    rememberable: false,
    id: "shell-in-shell",
    note: NOTES["shell-in-shell"],
    calls: [{ test: "starts a shell" }],
    matches: ["bash -c 'ls'", "sh -c ls", "busybox ls"],
    misses: ["ls", "echo bash"],
  },
];
