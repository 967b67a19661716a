import { expect, test } from "bun:test";
import { childEnvironment, environmentFaults } from "../../../src/targets/command/environment.ts";

const REFUSED =
  "PATH HOME LANG LC_ALL TZ STC_CALL_ID LD_PRELOAD LD_LIBRARY_PATH ld_preload DYLD_INSERT_LIBRARIES BUN_OPTIONS BUN_BE_BUN NODE_OPTIONS NODE_PATH GIT_SSH GIT_SSH_COMMAND GIT_PROXY_COMMAND GIT_EXTERNAL_DIFF GIT_PAGER PAGER EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_ASKPASS SSH_ASKPASS GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0 GIT_CONFIG_PARAMETERS GIT_TRACE GIT_TRACE2_EVENT BASH_ENV ENV BASH_FUNC_x SHELLOPTS PS4 PYTHONPATH PYTHONSTARTUP PERL5OPT RUBYOPT JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS KUBE_EDITOR KUBECTL_EXTERNAL_DIFF ARGOCD_OPTS LESSOPEN LESSCLOSE OPENSSL_CONF GCONV_PATH SSLKEYLOGFILE GLIBC_TUNABLES MANPAGER BROWSER SHELL IFS RSYNC_RSH CVS_RSH RSYNC_CONNECT_PROG RIPGREP_CONFIG_PATH VIMINIT EXINIT".split(
    " ",
  );

test.each(REFUSED)("%s is refused", (name) => {
  expect(environmentFaults({ [name]: "x" })).toHaveLength(1);
});

test.each([
  "KUBECONFIG",
  "KUBERC",
  "LOKI_ADDR",
  "GIT_DIR",
  "GIT_WORK_TREE",
  "GIT_CONFIG_NOSYSTEM",
  "GIT_NO_LAZY_FETCH",
  "GIT_ALLOW_PROTOCOL",
  "NO_COLOR",
  "SSL_CERT_FILE",
])("%s is allowed", (name) => {
  expect(environmentFaults({ [name]: "x" })).toEqual([]);
});

test.each([
  ["", "x"],
  ["A=B", "x"],
  ["A B", "x"],
  ["9A", "x"],
  ["A\n", "x"],
  ["A", "a\0b"],
  ["A", "\ud800"],
  ["A", 7],
  ["GIT_CONFIG_GLOBAL", "/home/x/.gitconfig"],
  ["GIT_CONFIG_SYSTEM", "/etc/evil"],
])("%p = %p is refused", (name, value) => {
  expect(environmentFaults({ [name]: value })).toHaveLength(1);
});

test("settings files may be switched off", () => {
  expect(environmentFaults({ GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_SYSTEM: "/dev/null" })).toEqual([]);
});

test("a variable that names a diff program may have only one value", () => {
  expect(environmentFaults({ KUBECTL_EXTERNAL_DIFF: "diff -U 1000000" })).toEqual([]);
  for (const value of ["diff", "diff -u", "sh -c x", "/tmp/diff -U 1000000", "diff -U 1000000 ", ""]) {
    expect(environmentFaults({ KUBECTL_EXTERNAL_DIFF: value })).toEqual([
      { field: "target.cli.environment.KUBECTL_EXTERNAL_DIFF", message: "may only be diff -U 1000000" },
    ]);
  }
});

test("a message contains no value", () => {
  expect(JSON.stringify(environmentFaults({ LD_PRELOAD: "hidden" }))).not.toContain("hidden");
});

test("too many variables are refused", () => {
  const many = Object.fromEntries(Array.from({ length: 65 }, (_, index) => [`X${index}`, "x"]));
  expect(environmentFaults(many)).toHaveLength(1);
});

test("PATH can be chosen by the service", () => {
  const environment = childEnvironment({ emptyDirectory: "/empty", pathVariable: "/opt/bin" }, { A: "b" });
  expect(environment).toEqual({
    PATH: "/opt/bin",
    HOME: "/empty",
    LANG: "C.UTF-8",
    LC_ALL: "C.UTF-8",
    TZ: "UTC",
    A: "b",
  });
});
