import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { readPlainFile } from "../../../src/runtime/config/plain-file.ts";
import { argocdConfigFault, kubeconfigFault, readPlatformFiles } from "../../../src/targets/command/platform.ts";
import { readConfig } from "../../support/build.ts";
import { contextFor } from "../../support/kinds.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const folder = temporaryDirectory();

const SOUND = {
  "current-context": "a",
  contexts: [{ name: "a", context: { cluster: "c", user: "u" } }],
  clusters: [{ name: "c", cluster: { server: "https://cluster:6443" } }],
  users: [{ name: "u", user: { token: "t" } }],
};

function written(name: string, content: unknown): string {
  const path = join(folder, name);
  writeFileSync(path, typeof content === "string" ? content : stringify(content));
  return path;
}

const user = (settings: unknown) => ({ ...SOUND, users: [{ name: "u", user: settings }] });

describe("kubeconfig", () => {
  test.each([
    ["YAML", stringify(SOUND)],
    ["JSON", JSON.stringify(SOUND)],
    ["with a client certificate", stringify(user({ "client-certificate": "/x", "client-key": "/y" }))],
    ["with a user that is called exec", stringify({ ...SOUND, users: [{ name: "exec", user: { token: "exec" } }] })],
  ])("%s is sound", (_title, text) => {
    expect(kubeconfigFault(written("sound", text), readPlainFile, { execPlugins: false })).toBeUndefined();
  });

  test.each([
    ["an exec plugin", user({ exec: { command: "/bin/sh" } }), /exec/],
    [
      "an exec plugin of another user",
      { ...SOUND, users: [...SOUND.users, { name: "v", user: { exec: {} } }] },
      /exec/,
    ],
    ["an exec plugin in capitals", user({ EXEC: {} }), /exec/],
    ["an auth provider", user({ "auth-provider": { name: "gcp", config: { "cmd-path": "/x" } } }), /auth-provider/],
    ["a plugin deep down", user({ a: [{ b: { exec: {} } }] }), /exec/],
    ["a plugin too deep to see", user(JSON.parse(`${'{"a":'.repeat(200)}1${"}".repeat(200)}`)), /merges|exec/],
    ["no current context", { ...SOUND, "current-context": "" }, /current-context/],
    ["a context that is not there", { ...SOUND, "current-context": "b" }, /no context "b"/],
    ["a cluster that is not there", { ...SOUND, clusters: [] }, /no server/],
    ["a cluster without a server", { ...SOUND, clusters: [{ name: "c", cluster: {} }] }, /no server/],
    ["several documents", `${stringify(SOUND)}---\n${stringify(user({ exec: {} }))}`, /not one YAML document/],
    ["a key twice", `${stringify(SOUND)}users: []\n`, /not one YAML document/],
    ["an alias", `${stringify(SOUND)}x: &a {exec: {}}\ny: *a\n`, /aliases/],
    ["a merge", stringify(user({ "<<": { exec: { command: "x" } } })), /merges/],
    ["a value with a tag of its own", stringify(SOUND).replace("token: t", "token: !x t"), /not one YAML document/],
    ["a key in escapes", JSON.stringify(user({ EXECUTE: {} })).replace("EXECUTE", "e\\u0078ec"), /exec/],
    ["a text", "just text", /not a table/],
    ["nothing", "", /not a table/],
    ["no YAML", "a: [", /not one YAML document/],
  ])("%s is a fault", (_title, content, message) => {
    expect(kubeconfigFault(written("faulty", content), readPlainFile, { execPlugins: false })).toMatch(message);
  });

  const exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/sh}";
  const below = (text: string): string => stringify(SOUND).replace("token: t\n", `token: t${text}\n`);

  /** kubectl 1.35 runs the plugin in each of these, except where its readers of other versions would. */
  test.each([
    ["after U+0085 in a comment", below(` # c\u0085      ${exec}`), /U\+0085 in line 14/],
    ["after U+2028", below(` # c\u2028      ${exec}`), /U\+2028/],
    ["after U+2029", below(` # c\u2029      ${exec}`), /U\+2029/],
    ["after a carriage return alone", below(` # c\r      ${exec}`), /U\+000D/],
    ["after U+0085 in a block of text", below(`\n      as: |\n       #\u0085      ${exec}`), /U\+0085/],
    ["in base64", below(`\n      !!binary ${exec.replace("exec", "ZXhlYw==")}`), /tags/],
    ["with a tag that is known", below(`\n      !!str ${exec}`), /tags/],
    ["under a directive", `%YAML 1.1\n---\n${below(`\n      ${exec}`)}`, /directives/],
    ["by a name for tags", `%TAG !e! tag:yaml.org,2002:\n---\n${below(`\n      !e!str ${exec}`)}`, /directives/],
    ["by an alias for the key", `x: &x exec\n${below(`\n      *x : {command: /bin/sh}`)}`, /aliases/],
    ["after a byte order mark", below(`\n\ufeff      ${exec}`), /U\+FEFF/],
    ["in other letters above", `${stringify(SOUND)}Users:\n- name: u\n  user:\n    ${exec}\n`, /exec/],
    ["after a NUL", below(` # c\0\n      ${exec}`), /U\+0000/],
  ])("a plugin %s is found, or the text refused", (_title, text, message) => {
    expect(kubeconfigFault(written("hidden", text), readPlainFile, { execPlugins: false })).toMatch(message);
    // The cluster and the user must not be hidden either.
    if (!/exec/.test(String(message))) {
      expect(kubeconfigFault(written("hidden", text), readPlainFile, { execPlugins: true })).toMatch(message);
    }
  });

  test("a plugin in UTF-16 is refused", () => {
    const path = join(folder, "utf16");
    writeFileSync(path, Buffer.concat([Buffer.of(0xff, 0xfe), Buffer.from(below(`\n      ${exec}`), "utf16le")]));
    expect(kubeconfigFault(path, readPlainFile, { execPlugins: false })).toBe("is not UTF-8");
  });

  test.each([
    ["a byte order mark at the start", `\ufeff${stringify(SOUND)}`],
    ["lines that end as on Windows", stringify(SOUND).replaceAll("\n", "\r\n")],
    ["JSON with tabs", JSON.stringify(SOUND, null, "\t")],
    ["other scripts in comments and names", below(" # café – ok\n      as: 東京")],
    ["quoted words that are no booleans any more", below('\n      as: "yes"')],
    ["a start of the document", `---\n${stringify(SOUND)}`],
    ["an anchor that nobody refers to", below("\n      as: &a me")],
  ])("%s is sound", (_title, text) => {
    expect(kubeconfigFault(written("sound", text), readPlainFile, { execPlugins: false })).toBeUndefined();
  });

  test("plugins may be allowed", () => {
    expect(
      kubeconfigFault(written("plugin", user({ exec: { command: "aws" } })), readPlainFile, { execPlugins: true }),
    ).toBeUndefined();
  });

  test("a missing file is named by its error", () => {
    expect(kubeconfigFault(join(folder, "nowhere"), readPlainFile, { execPlugins: false })).toBe(
      "cannot be read (ENOENT)",
    );
  });
});

describe("argocd's settings", () => {
  const settings = (server: unknown) => ({ "current-context": "x", contexts: [], servers: [server], users: [] });

  test("a server is accepted", () => {
    expect(
      argocdConfigFault(written("argocd", settings({ server: "argocd:443", core: false })), readPlainFile),
    ).toBeUndefined();
  });

  test("core mode that only another reader would see is refused", () => {
    const text = `${stringify(settings({ server: "argocd:443" }))}# c\u0085core: true\n`;
    expect(argocdConfigFault(written("argocd-hidden", text), readPlainFile)).toMatch(/U\+0085/);
  });

  test.each([[{ server: "kubernetes", core: true }], [{ Core: "true" }], [{ core: 1 }]])(
    "%j is core mode",
    (server) => {
      expect(argocdConfigFault(written("core", settings(server)), readPlainFile)).toMatch(/core mode/);
    },
  );
});

describe("from the configuration", () => {
  const read = (systems: Readonly<Record<string, unknown>>) => {
    const jwt = { issuers: [{ issuer: "https://x", jwksUri: "https://x/jwks" }] };
    const config = { tools: ["tools"], audit: { dir: "audit" }, jwt, systems };
    const problems: string[] = [];
    const files = readPlatformFiles(
      contextFor(readConfig(config, { folder, environment: {}, origin: "config" }), "cli", problems),
    );
    return { problems, files };
  };

  test("errors name the field, and every call checks again", () => {
    written("kubeconfig", user({ exec: {} }));
    written("argocd.yaml", "core: true");
    const { problems, files } = read({
      kubernetes: { kubeconfig: "kubeconfig" },
      argocd: { configFile: "argocd.yaml" },
    });
    expect(problems).toEqual([
      expect.stringMatching(/^systems\.kubernetes\.kubeconfig: kubeconfig: names a program/),
      expect.stringMatching(/^systems\.argocd\.configFile: argocd\.yaml: switches to core mode/),
    ]);
    written("kubeconfig", SOUND);
    expect(files.get("kubectl")?.()).toBeUndefined();
  });

  test("files that the commands read on their own are included", () => {
    written("token", "t");
    expect(
      read({ loki: { bearerTokenFile: "token", rootCert: "nowhere.pem" }, argocd: { rootCert: "none" } }).problems,
    ).toEqual([
      "systems.loki.rootCert: nowhere.pem: cannot be read (ENOENT)",
      "systems.argocd.rootCert: none: cannot be read (ENOENT)",
    ]);
  });

  test("without configuration there is no problem", () => {
    expect(read({})).toEqual({ problems: [], files: new Map() });
    expect(read({ kubernetes: { namespaces: ["a"] }, argocd: { server: "x" } }).problems).toEqual([]);
  });
});
