import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Ended, runStc } from "../support/stc.ts";
import { StandInApprovals } from "../support/terminal-approvals.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-exits-"));
const path = (name: string): string => join(folder, name);
const service = new StandInApprovals();
const audit = path("audit");

beforeAll(() => {
  mkdirSync(audit);
  mkdirSync(path("policy"));
  writeFileSync(path("policy/policy.yaml"), "halts: { whenUnknown: keepLast }");
  writeFileSync(path("token"), "operator.token.x\n");
  writeFileSync(path("other-token"), "another.token.x\n");
  writeFileSync(path("text"), "{");
  writeFileSync(path("sample.json"), '{"a":1}');
  writeFileSync(path("broken.yaml"), "tools: [");
  writeFileSync(path("plain.yaml"), PLAIN);
});
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

const GOOD = "--token-file {folder}/token --url {url}";
const REFUSED = "--token-file {folder}/other-token --url {url}";
const NOBODY = "--token-file {folder}/token --url http://127.0.0.1:1";
const IN = "--dir {folder}/audit";
const NOWHERE = "--dir {folder}/nowhere";
const OF = "--fleet shop --environment test";

const PLAIN = "{ tools: [./tools], audit: { dir: ./audit }, jwt: { issuer: one, publicKey: none } }";

/** What is typed, how it ends, and what stands on the way of the errors. `{…}` are places of this test. */
const ROWS: readonly (readonly [typed: string, code: number, says: string])[] = [
  ["", 64, "Usage: stc"],
  ["nonsense", 64, "unknown command 'nonsense'"],
  ["--nonsense", 64, "unknown option"],
  ["help nonsense", 64, "unknown command 'nonsense'"],
  ["help audit nonsense", 64, "unknown command 'nonsense'"],
  ["help --nonsense", 64, "unknown option"],
  ["audit", 64, "Usage: stc audit"],
  ["approvals", 64, "Usage: stc approvals"],
  ["grants nonsense", 64, "unknown command"],
  ["mode nonsense", 64, "unknown command"],
  ["schema", 64, "Usage: stc schema"],
  ["schema tool extra", 64, "too many arguments"],
  ["schema test extra", 64, "too many arguments"],
  ["schema configuration extra", 64, "too many arguments"],
  ["test --nonsense", 64, "unknown option"],
  ["try", 64, "missing required argument 'tool'"],

  ["serve extra", 64, "too many arguments"],
  ["serve --config", 64, "argument missing"],
  ["serve --dev --config x.yaml", 64, "'--dev' cannot be used with option '--config <file>'"],
  ["serve", 78, "no configuration"],
  ["serve --config {folder}/nowhere", 78, "cannot be read (ENOENT)"],
  ["serve --config {folder}/broken.yaml", 78, "broken.yaml"],
  ["check --dev --config x.yaml --json", 64, "'--dev' cannot be used with option '--config <file>'"],
  ["check --nonsense", 64, "unknown option"],
  ["check --config {folder}/broken.yaml", 78, "broken.yaml"],
  ["check --tenant", 64, "argument missing"],
  ["check --config {folder}/plain.yaml --tenant ../acme", 64, "must be a name of lowercase letters"],
  ["check --config {folder}/plain.yaml --tenant acme", 64, "there is no tenant acme: the configuration has no tenants"],
  ["tools --config {folder}/plain.yaml --tenant acme", 64, "there is no tenant acme"],
  ["serve --tenant acme", 64, "unknown option"],
  ["doctor --config {folder}/plain.yaml --tenant acme", 64, "there is no tenant acme"],
  ["doctor extra", 64, "too many arguments"],
  ["doctor --dev --config x.yaml", 64, "'--dev' cannot be used with option '--config <file>'"],
  ["doctor", 78, ""],
  ["doctor --config {folder}/broken.yaml --json", 78, ""],
  ["tools --dev --config x.yaml", 64, "'--dev' cannot be used with option '--config <file>'"],
  ["tools extra", 64, "too many arguments"],
  ["tools", 78, "no configuration"],
  ["access", 64, "Usage: stc access"],
  ["access export", 78, "no configuration"],
  ["access export --format xml", 64, "is invalid"],
  ["access export --config {folder}/broken.yaml", 78, "broken.yaml"],
  ["import", 64, "Usage: stc import"],
  ["learn", 64, "missing required argument 'tool'"],
  ["explain", 64, "missing required argument 'tool'"],
  ["explain git_log", 78, "no configuration"],
  ["replay --nonsense", 64, "unknown option"],
  ["replay", 78, "no configuration"],
  ["quotas list --caller one", 64, "--caller takes two values"],
  ["quotas reset", 64, "missing required argument 'name'"],
  ["import mcp x", 64, "required option '--out <directory>' not specified"],
  ["import graphql", 64, "missing required argument 'system'"],
  ["import graphql --dev x", 64, "systems has no HTTP system x"],
  ["import graphql x", 78, "no configuration"],
  ["import openapi", 64, "missing required argument 'system'"],
  ["import openapi --dev x --list", 64, "systems has no HTTP system x"],
  ["import openapi x --list --method GETS", 64, "is invalid"],
  ["import openapi x --list", 78, "no configuration"],
  ["import sql", 64, "missing required argument 'system'"],
  ["import sql --dev x", 64, "systems has no database x"],
  ["import sql x", 78, "no configuration"],
  ["import sql x --table y --statement z", 64, "give --table or --statement, not both"],
  ["import grpc", 64, "missing required argument 'system'"],
  ["import grpc --dev x --list", 64, "systems has no gRPC system x"],
  ["import grpc x --list", 78, "no configuration"],
  ["plan", 64, "missing required argument 'tool'"],
  ["plan --dev --config x.yaml git_log", 64, "'--dev' cannot be used with option '--config <file>'"],
  ["plan --dev nonsense", 64, "there is no tool nonsense"],
  ["plan --dev git_log {", 64, "not a JSON object: unexpected end"],
  ["plan --dev git_log []", 64, "not a JSON object"],
  ["plan --dev git_log {}", 1, "repo: "],
  ["plan --dev git_log --args {", 64, "not a JSON object: unexpected end"],
  ["plan --dev git_log --args {}", 1, "repo: "],
  ['plan --dev git_log {"n":1} --args {"n":2}', 64, "give the arguments once"],
  ["explain --dev git_log {", 64, "not a JSON object: unexpected end"],
  ["explain --dev git_log --args {", 64, "not a JSON object: unexpected end"],
  ['explain --dev git_log {"n":1} --args {"n":2}', 64, "give the arguments once"],
  ["try --dev git_log {", 64, "not a JSON object: unexpected end"],
  ["try --dev git_log --args {", 64, "not a JSON object: unexpected end"],
  ['try --dev git_log {"n":1} --args {"n":2}', 64, "give the arguments once"],
  ["plan git_log", 78, "no configuration"],
  ["filter --dev get_customer", 64, "--sample"],
  [
    "filter --dev --config x.yaml get_customer --sample {folder}/sample.json",
    64,
    "'--dev' cannot be used with option '--config <file>'",
  ],
  ["filter --dev nonsense --sample {folder}/sample.json", 64, "there is no tool nonsense"],
  ["filter --dev get_customer --sample {folder}/nowhere", 66, "ENOENT"],
  ["filter --dev get_customer --sample {folder}/text", 66, "is not JSON"],
  ["filter --dev get_customer --sample {folder}/sample.json", 1, "INVALID_OUTPUT"],

  ["completion tcsh", 64, "is invalid"],
  ["init a b", 64, "too many arguments"],
  ["init {folder}/text/below", 1, "cannot be written"],
  ["token", 64, "--sub"],
  ["token --sub a --ttl 2h", 64, "--ttl"],
  ["token --sub a --ttl soon", 64, "--ttl"],
  ["token --sub a --permission", 64, "argument missing"],
  ["token --sub a --operator --session s", 64, "has no session"],
  ["token --sub a --claim tenant", 64, "a claim is name=text"],
  ["token --sub a --claim iss=https://other.example", 64, "not one of iss"],

  ["console --dev --config x.yaml", 64, "'--dev' cannot be used with option '--config <file>'"],
  ["console", 78, "no configuration"],
  ["console --config {folder}/nowhere", 78, "cannot be read (ENOENT)"],
  ["console --config {folder}/broken.yaml", 78, "broken.yaml"],
  ["health --url nonsense", 64, "not the address of a service"],
  ["health --ca-file {folder}/nowhere", 64, "cannot be read"],
  ["health --url http://127.0.0.1:1", 2, "no answer"],
  ["health --url {url}", 1, "401"],

  ["mcp", 64, "no token"],
  ["mcp --dev --token-file {folder}/token", 64, "option '--dev' cannot be used with option '--token-file <file>'"],
  ["mcp --token-file -", 64, "standard input carries the protocol"],
  ["mcp --token-file {folder}/token --url http://198.51.100.7:8787", 64, "sends the token unprotected"],

  ["call", 64, "missing required argument 'tool'"],
  [`call t { ${GOOD}`, 64, "not a JSON object"],
  [`call t [] ${GOOD}`, 64, "not a JSON object"],
  [`call t --args [] ${GOOD}`, 64, "not a JSON object"],
  [`call t {"n":1} --args {"n":2} ${GOOD}`, 64, "give the arguments once"],
  ["call t --url {url}", 64, "no token"],
  ["call t --url {url} --token-file {folder}/nowhere", 64, "is empty or cannot be read"],
  ["call t --token-file {folder}/token --url nonsense", 64, "not the address of a service"],
  [`call t {} ${NOBODY}`, 2, "no answer"],
  [`call t {} ${REFUSED}`, 1, ""],
  ["reload extra", 64, "too many arguments"],
  ["reload --url {url}", 64, "no token"],
  [`reload ${NOBODY}`, 2, "no answer"],
  [`reload ${REFUSED}`, 1, "UNAUTHENTICATED"],

  [`approvals list --state foo ${GOOD}`, 64, "Allowed choices are pending"],
  [`approvals list --state foo ${NOBODY}`, 64, "Allowed choices are pending"],
  ["approvals list --url {url}", 64, "no token"],
  [`approvals list --client-cert-file {folder}/text ${GOOD}`, 64, "belong together"],
  [`approvals list ${NOBODY}`, 2, "no answer"],
  [`approvals list ${REFUSED}`, 1, "UNAUTHENTICATED"],
  [`approvals show ${GOOD}`, 64, "missing required argument 'id'"],
  [`approvals show .. ${GOOD}`, 64, "not a valid id"],
  [`approvals show a ${GOOD}`, 1, "APPROVAL_NOT_FOUND"],
  [`approvals approve ${GOOD}`, 64, "missing required argument 'id'"],
  [`approvals approve a --view-digest nonsense ${GOOD}`, 64, "--view-digest"],
  [`approvals approve a --reason ${"x".repeat(501)} ${GOOD}`, 64, "more than 500"],
  [`approvals approve a ${GOOD}`, 1, "APPROVAL_NOT_FOUND"],
  [`approvals deny ${GOOD}`, 64, "missing required argument 'id'"],
  [`approvals deny a --answer x ${GOOD}`, 64, "unknown option"],
  [`approvals deny a ${GOOD}`, 1, "APPROVAL_NOT_FOUND"],
  [`approvals deny a ${NOBODY}`, 2, "no answer"],
  [`approvals revoke ${GOOD}`, 64, "missing required argument 'id'"],
  [`approvals revoke a ${GOOD}`, 1, "APPROVAL_NOT_FOUND"],
  [`approvals report --since nonsense ${GOOD}`, 64, "--since"],
  [`approvals report --until 2026-02-31 ${NOBODY}`, 64, "--until"],
  [`approvals report ${REFUSED}`, 1, "UNAUTHENTICATED"],
  [`approvals watch ${GOOD}`, 64, "must be a terminal"],
  [`approvals watch --json ${GOOD}`, 64, "unknown option"],
  [`flow show https://agents.example ${REFUSED}`, 64, "missing"],
  [`flow show https://agents.example agent-7 ${REFUSED}`, 1, "UNAUTHENTICATED"],
  [`flow clear https://agents.example agent-7 ${GOOD}`, 64, "--reason"],
  [`flow clear https://agents.example agent-7 --reason done ${REFUSED}`, 1, "UNAUTHENTICATED"],
  [`fleet members extra ${GOOD}`, 64, "too many arguments"],
  [`fleet members ${REFUSED}`, 1, "UNAUTHENTICATED"],
  [`tenants extra ${GOOD}`, 64, "too many arguments"],
  [`tenants ${REFUSED}`, 1, "UNAUTHENTICATED"],
  [`grants list --state foo ${GOOD}`, 64, "unknown option"],
  [`grants list ${REFUSED}`, 1, "UNAUTHENTICATED"],
  [`learn x ${REFUSED}`, 1, "UNAUTHENTICATED"],
  [`grants revoke ${GOOD}`, 64, "missing required argument 'id'"],
  [`grants revoke a ${NOBODY}`, 2, "no answer"],
  [`halts extra ${GOOD}`, 64, "too many arguments"],
  [`halts ${REFUSED}`, 1, "UNAUTHENTICATED"],
  [`halt --all ${GOOD}`, 64, "--reason"],
  [`halt --reason r ${GOOD}`, 64, "name exactly one of"],
  [`halt --tool t --system s --tenant acme --reason r ${GOOD}`, 64, "name exactly one of"],
  [`halt --tenant Acme --reason r ${GOOD}`, 64, "must be a name of lowercase letters"],
  [`halt --all --reason r --until soon ${GOOD}`, 64, "must be a time with its zone"],
  [`halt --all --reason r ${NOBODY}`, 2, "no answer"],
  [`resume ${GOOD}`, 64, "missing required argument 'id'"],
  [`resume x ${REFUSED}`, 1, "UNAUTHENTICATED"],
  [`mode list extra ${GOOD}`, 64, "too many arguments"],
  [`mode list ${REFUSED}`, 1, "UNAUTHENTICATED"],
  [`mode set s brave --for 1m ${GOOD}`, 64, "Allowed choices"],
  [`mode set s yolo ${GOOD}`, 64, "--for"],
  [`mode set s yolo --for 0s ${GOOD}`, 64, "--for"],
  [`mode set s yolo --for 1m --sub a ${GOOD}`, 64, "go together"],
  [`mode end s --subject a ${GOOD}`, 64, "go together"],
  [`mode end s --sub a --subject a ${GOOD}`, 64, "cannot be used with"],
  [`mode set s yolo --for 1m --subject  --issuer i ${GOOD}`, 64, "must not be empty"],
  [`mode set s yolo --for 1m ${NOBODY}`, 2, "no answer"],
  [`mode end ${GOOD}`, 64, "missing required argument 'session'"],
  [`mode end s ${REFUSED}`, 1, "UNAUTHENTICATED"],

  [`audit query ${NOWHERE}`, 66, "no audit directory"],
  [`audit query ${IN}`, 1, "no call matches"],
  [`audit query --from nonsense ${IN}`, 64, "from must be"],
  [`audit query --tenant ../.. ${IN}`, 64, "must be a name of lowercase letters"],
  [`audit query --tenant acme ${IN}`, 66, "/audit has no tenants"],
  [`audit query --tenant acme ${NOWHERE}`, 66, "no audit directory"],
  [`audit query --limit 0 ${IN}`, 64, "limit must be"],
  [`audit query --order nonsense ${IN}`, 64, "order must be"],
  [`audit query --cursor nonsense ${IN}`, 64, "cursor is not"],
  [`audit query --decision nonsense ${IN}`, 64, "decision must be"],
  [`audit query --from 1d --to 2d ${IN}`, 64, "from must be earlier"],
  [`audit tail ${NOWHERE}`, 66, "no audit directory"],
  [`audit tail ${IN}`, 0, "no call matches"],
  [`audit tail -n -1 ${IN}`, 64, "whole number"],
  [`audit tail --code nonsense ${IN}`, 64, "code must be"],
  [`audit show ${IN}`, 64, "missing required argument 'id'"],
  [`audit show a --tenant acme ${IN}`, 66, "there is no tenant acme"],
  [`audit show a ${IN}`, 1, "has the id a"],
  [`audit show a ${NOWHERE}`, 66, "no audit directory"],
  [`audit stats --compare nonsense ${IN}`, 64, "compare must be"],
  [`audit stats ${IN}`, 1, ""],
  [`audit export ${IN}`, 64, "--format"],
  [`audit export --format nonsense ${IN}`, 64, "--format must be one of"],
  [`audit export --format csv ${IN}`, 1, "no call matches"],
  [`audit export --format csv -o {folder}/text ${IN}`, 73, "cannot create"],
  [`audit exports extra ${IN}`, 64, "extra"],
  [`audit exports ${IN}`, 1, ""],
  [`audit exports ${NOWHERE}`, 66, "no audit directory"],
  ["audit fetch", 64, "--out"],
  ["audit fetch s3://bucket --out {folder}/fetched", 64, "--endpoint"],
  ["audit fetch {folder}/nowhere --out {folder}/fetched", 66, "there is no directory"],
  ["audit duckdb", 64, "missing required argument 'archive'"],
  ["audit duckdb {folder}/nowhere", 0, ""],
  ["audit import", 64, "--to-store"],
  [`audit import --to-store {folder}/nowhere ${IN}`, 66, "--to-store must be a postgres:// or clickhouse:// URL"],
  [`audit import --to-store {folder}/text ${NOWHERE}`, 66, "no audit directory"],
  [`audit import --to-store {folder}/text ${IN} {folder}/text`, 64, "give one of --dir"],
  [`audit import --to-store {folder}/text --from-kafka {folder}/text ${IN}`, 64, "give one of"],
  ["audit import --to-store {folder}/text --from-kafka {folder}/nowhere", 78, "cannot be read (ENOENT)"],
  ["audit import --to-store {folder}/text --from-kafka {folder}/sample.json", 78, "brokers"],
  ["audit import --to-store postgres://stc@127.0.0.1:1/audit", 66, "the audit store accepts no lines"],
  [`audit prune ${IN}`, 64, "--keep"],
  [`audit prune --keep 0d ${IN}`, 64, "--keep must be"],
  [`audit prune --keep 1d --dry-run ${IN}`, 1, ""],
  [`audit verify --from 2026-02-31 ${IN}`, 64, "not a date"],
  [`audit verify --from 2026-02-02 --to 2026-02-01 ${IN}`, 64, "must not be later"],
  [`audit verify --tenant .. ${IN}`, 64, "must be a name of lowercase letters"],
  [`audit verify --tenant acme ${IN}`, 66, "there is no tenant acme"],
  [`audit verify --key {folder}/nowhere ${IN}`, 5, "ENOENT"],
  [`audit verify ${NOWHERE}`, 66, "no audit directory"],
  [`audit prove ${IN}`, 64, "missing required argument 'id'"],
  [`audit prove a ${IN}`, 1, "no call"],
  [`audit prove a ${NOWHERE}`, 66, "no audit directory"],
  ["audit verify-proof", 64, "missing required argument 'file'"],
  ["audit verify-proof {folder}/sample.json", 64, "give --key"],
  ["audit verify-proof {folder}/nowhere --key {folder}/text", 5, "ENOENT"],
  ["audit keys", 64, "--new FILE"],
  ["audit keys --new a --key b", 64, "--new FILE"],
  ["audit keys --key {folder}/nowhere", 66, "ENOENT"],
  ["audit keys --new {folder}/text", 73, "cannot create"],

  ["bundle", 64, "Usage: stc bundle"],
  ["bundle build {folder}/audit", 64, "--out"],
  [`bundle build {folder}/audit --out {folder}/bundles ${OF} --version 0`, 64, "whole number from 1"],
  [`bundle build {folder}/audit --out {folder}/bundles ${OF} --version 1 --percent 101`, 64, "from 0 to 100"],
  [`bundle build {folder}/audit --out {folder}/bundles ${OF} --version 1`, 1, "the bundle holds no policy.yaml"],
  [`bundle build {folder}/nowhere --out {folder}/bundles ${OF} --version 1`, 66, "cannot be read (ENOENT)"],
  [`bundle build {folder}/policy --out {folder}/text ${OF} --version 1`, 66, "cannot be read (ENOTDIR)"],
  ["bundle sign {folder}/nowhere", 64, "--key"],
  ["bundle sign {folder}/nowhere --key {folder}/text --expires 1d", 64, "--expires is for --timestamp"],
  ["bundle sign {folder}/nowhere --key {folder}/text", 66, "does not contain an Ed25519 private key"],
  [`bundle verify {folder}/nowhere ${OF}`, 64, "--key and --timestamp-key are needed"],
  [`bundle verify {folder} ${OF} --key {folder}/text --timestamp-key {folder}/text`, 66, "not an Ed25519 public key"],
  ["bundle serve {folder}/nowhere --cert-file {folder}/text", 64, "go together"],
  ["bundle serve {folder}/nowhere", 66, "cannot be read (ENOENT)"],
];

const wordsOf = (typed: string): readonly string[] =>
  typed === ""
    ? []
    : typed.split(" ").map((word) => word.replaceAll("{folder}", folder).replaceAll("{url}", service.url));

test.concurrent.each(ROWS)("stc %s: exit %i", async (typed, code, says) => {
  const ended = await runStc(wordsOf(typed), { cwd: folder });
  expect({ code: ended.code, err: ended.err }).toEqual({ code, err: expect.stringContaining(says) });
  expect(ended.err).not.toMatch(/\n\s+at /);
});

test("programs get no message where nothing was found", async () => {
  for (const command of ["query", "tail"]) {
    const { out, err } = await runStc(["audit", command, "--json", "--dir", audit]);
    expect({ out, err }).toEqual({ out: "", err: "" });
  }
});

describe("help", () => {
  const helps = new Map<string, Promise<Ended>>();
  /** Through `stc help`, once for each command. */
  const helpOf = (command: string): Promise<Ended> => {
    const words = command === "" ? [] : command.split(" ");
    const known = helps.get(command) ?? runStc(["help", ...words]);
    helps.set(command, known);
    return known;
  };

  async function leavesUnder(command: string): Promise<readonly string[]> {
    const { code, out } = await helpOf(command);
    expect(code).toBe(0);
    const [, listed] = out.split("\nCommands:\n");
    if (listed === undefined) return [command];
    const names = [...listed.matchAll(/^ {2}([a-z-]+)/gm)]
      .map(([, name = ""]) => name)
      .filter((name) => name !== "help");
    const under = await Promise.all(names.map((name) => leavesUnder(`${command} ${name}`.trim())));
    return under.flat();
  }

  /** The command of a row: the longest that its words begin with. */
  const commandOf = (typed: string, leaves: readonly string[]): string | undefined =>
    leaves.find((leaf) => `${typed} `.startsWith(`${leaf} `));

  test("of each command names every exit code used here; each has a row of wrong usage", async () => {
    const leaves = await leavesUnder("");
    expect(leaves.length).toBeGreaterThan(25);
    for (const leaf of leaves) {
      const codes = ROWS.filter(([typed]) => commandOf(typed, leaves) === leaf).map(([, code]) => code);
      expect([leaf, codes.includes(64)]).toEqual([leaf, true]);
      const { out } = await helpOf(leaf);
      const [, exits = ""] = out.split("\nExit codes:\n");
      expect(out).toStartWith(`Usage: stc ${leaf} `);
      expect([leaf, codes.filter((code) => !new RegExp(`\\b${code} `).test(exits))]).toEqual([leaf, []]);
    }
  });
});
