import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { parseDocument } from "yaml";
import { systemCode } from "../../core/error-text.ts";
import { Refusal } from "../../core/errors.ts";
import type { RegisteredTool } from "../../core/evidence.ts";
import { isTable } from "../../core/json.ts";
import { hint } from "../../core/nearest.ts";
import type { CallerContext, ExecutionPlan, Json } from "../../core/types.ts";
import { permissionsFor } from "../../pipeline/built-in-points.ts";
import { readInput } from "../../pipeline/schema-validator.ts";
import type { Parts } from "../../runtime/composition/wiring.ts";
import { type Config, pathFrom } from "../../runtime/config/config.ts";
import { agentIssuers, callersTenant } from "../../runtime/config/tenants.ts";
import { judge } from "../../runtime/replay/judge.ts";
import { type ConfigurationOptions, configuration } from "../configuration.ts";
import { filterSample, type ShownAnswer, tried, Withheld } from "../filter.ts";
import { CommandError, EXIT, print } from "../output.ts";
import { type AnswerFixture, type CallFixture, readFixtures } from "./fixtures.ts";
import { assembleOffline } from "./offline.ts";

interface TestOptions extends ConfigurationOptions {
  readonly update?: boolean;
  readonly json?: boolean;
}

/** One case of a file. `problems` is empty when it passed. */
interface CaseResult {
  readonly name: string;
  readonly field: string;
  readonly line: number | undefined;
  readonly problems: readonly string[];
  /** The case as `--update` would write it. */
  readonly update?: Readonly<Record<string, Json>> | undefined;
}

interface FileResult {
  readonly file: string;
  readonly tool: string;
  readonly cases: readonly CaseResult[];
  /** What keeps the file from being used. */
  readonly problems: readonly string[];
}

const FIXTURES = "**/*.test.{yaml,yml}";
const PLAN_TIMEOUT_MS = 30_000;
const DIFFERENCES_MAX = 20;
const VALUE_CHARACTERS_MAX = 200;

/** `stc test`: compares what becomes of calls and answers with the fixtures beside manifests. Reaches no target. */
export async function test(selected: readonly string[], options: TestOptions): Promise<void> {
  const { config } = await configuration(options);
  const files = filesFor(selected, config);
  const parts = await assembleOffline(config);
  try {
    const results: FileResult[] = [];
    for (const file of files) results.push(await testFile(file, parts, config));
    const shown = results.filter(({ tool, file }) => isSelected(selected, tool, file));
    if (shown.length === 0) throw new CommandError(EXIT.noInput, nothingFound(selected));
    if (options.update === true) for (const result of shown) update(result);
    const isPassed = shown.every(
      ({ problems, cases }) => problems.length === 0 && cases.every((each) => isDone(each, options)),
    );
    if (options.json === true) print.json({ ok: isPassed, files: shown });
    else show(shown, options);
    if (!isPassed) process.exitCode = EXIT.failed;
  } finally {
    await parts.close();
  }
}

function isDone({ problems, update: change }: CaseResult, options: TestOptions): boolean {
  return problems.length === 0 || (options.update === true && change !== undefined);
}

function isFile(name: string): boolean {
  return /\.ya?ml$/.test(name);
}

function isSelected(selected: readonly string[], tool: string, file: string): boolean {
  return selected.length === 0 || selected.some((name) => (isFile(name) ? resolve(name) === file : name === tool));
}

function nothingFound(selected: readonly string[]): string {
  if (selected.length > 0)
    return `no fixtures of ${selected.join(", ")}: they are <manifest>.test.yaml beside the manifests`;
  return "no fixtures: <manifest>.test.yaml beside the manifests; docs/authoring.md shows one";
}

/** Returns the files of fixtures: those that are named, and those beside all manifests where a tool or nothing is named. */
function filesFor(selected: readonly string[], config: Config): readonly string[] {
  const named = selected.filter(isFile).map((name) => resolve(name));
  if (selected.length > 0 && named.length === selected.length) return named;
  const found = config.tools.flatMap((source) =>
    typeof source === "string" ? fixturesAt(pathFrom(config, source)) : [],
  );
  return [...new Set([...named, ...found])].sort();
}

function fixturesAt(path: string): readonly string[] {
  const state = statSync(path, { throwIfNoEntry: false });
  if (state?.isDirectory() === true) {
    const found = [...new Bun.Glob(FIXTURES).scanSync({ cwd: path })];
    return found.filter((file) => !file.includes("node_modules/")).map((file) => join(path, file));
  }
  const name = basename(path).replace(/\.tool\.ya?ml$|\.[cm]?ts$/, "");
  return [".test.yaml", ".test.yml"].map((end) => join(dirname(path), name + end)).filter((file) => existsSync(file));
}

async function testFile(file: string, parts: Parts, config: Config): Promise<FileResult> {
  const source = tried(() => readFileSync(file, "utf8"));
  if (source instanceof Error)
    return { file, tool: "", cases: [], problems: [`cannot be read (${systemCode(source)})`] };
  const read = readFixtures(source);
  if ("problems" in read) return { file, tool: "", cases: [], problems: read.problems };
  const { fixtures, lineOf } = read;
  const { tool, calls, answers } = fixtures;
  const { registered: found } = parts.registry.find(tool);
  if (found === undefined) {
    const names = parts.registry.list().map((each) => each.tool.name);
    const why = parts.loaded.notRegistered.find((reason) => reason.includes(tool));
    const line = `line ${lineOf("tool") ?? 1}: tool: there is no tool ${tool}${hint(tool, names)}`;
    return { file, tool, cases: [], problems: [why === undefined ? line : `${line} (${why})`] };
  }
  const tester = new Tester({ parts, config, found });
  const cases: CaseResult[] = [];
  const add = async (field: string, name: string | undefined, run: () => Promise<Outcome> | Outcome): Promise<void> => {
    const { problems, update: change } = await run();
    cases.push({ name: name ?? field, field, line: lineOf(field), problems, update: change });
  };
  for (const [at, call] of calls.entries()) await add(`calls[${at}]`, call.name, () => tester.call(call));
  for (const [at, answer] of answers.entries()) await add(`answers[${at}]`, answer.name, () => tester.answer(answer));
  const isEmpty = cases.length === 0;
  return { file, tool, cases, problems: isEmpty ? ["has neither calls nor answers"] : [] };
}

interface Outcome {
  readonly problems: readonly string[];
  readonly update?: Readonly<Record<string, Json>> | undefined;
}

interface Refused {
  readonly code: string;
  readonly message: string;
  readonly fields: readonly string[];
}

interface TesterParts {
  readonly parts: Parts;
  readonly config: Config;
  readonly found: RegisteredTool;
}

/** Runs the cases of one tool. */
class Tester {
  readonly #with: TesterParts;

  constructor(parts: TesterParts) {
    this.#with = parts;
  }

  async call(expected: CallFixture): Promise<Outcome> {
    const { parts, config, found } = this.#with;
    const { tool } = found;
    const input = tried(() => readInput(tool, expected.args));
    const planned = input instanceof Error ? {} : await this.#plan(input, expected);
    const judged = await judge(
      { parts, config, asks: ({ isLocal }) => isLocal === true },
      {
        tool: tool.name,
        caller: this.#caller(input, expected),
        mode: expected.mode ?? config.approvals.mode,
        args: { kind: "sent", value: expected.args },
        ...(planned.plan !== undefined && { plan: planned.plan }),
      },
    );
    const verdicts = [...judged.verdicts];
    const [code, another] = verdicts.filter((each) => each !== "allow" && each !== "ask");
    const isRefused = code !== undefined && another === undefined && verdicts.length === 1;
    const byPolicy = isRefused ? refusedBy(judged.refusal ?? new Refusal(code, "refused")) : undefined;
    const refused = byPolicy ?? planned.refused;
    return { problems: callProblems(expected, { input, planned, verdicts, refused }) };
  }

  #caller(input: unknown, { permissions }: CallFixture): CallerContext {
    const { config, found } = this.#with;
    const issuer = agentIssuers(config)[0]?.issuer ?? "(issuer)";
    const needed = tried(() => permissionsFor(found.tool, input));
    const all = input instanceof Error || needed instanceof Error ? found.tool.permissions.required : needed;
    const held = permissions ?? all;
    const caller = { issuer, subject: "stc-test", tenant: callersTenant(config), permissions: held, actors: [] };
    return { ...caller, expiresAt: Number.MAX_SAFE_INTEGER };
  }

  async #plan(input: unknown, { lookups, plan: expected }: CallFixture): Promise<Planned> {
    const { binding } = this.#with.found;
    try {
      const plan = binding.planWithLookups?.(input, lookups ?? {});
      if (plan !== undefined) return { plan };
      if (binding.plansFromArguments === true || binding.planIsInput === true) {
        return { plan: await binding.plan(input, { signal: AbortSignal.timeout(PLAN_TIMEOUT_MS) }) };
      }
      return expected === undefined ? {} : { problem: "planning reads files, which a test does not" };
    } catch (error) {
      if (error instanceof Refusal) return { refused: refusedBy(error) };
      return { problem: error instanceof Error ? error.message : String(error) };
    }
  }

  answer(expected: AnswerFixture): Outcome {
    const { parts, found } = this.#with;
    const got = tried(() => filterSample(found, parts.detector, this.#raw(expected)));
    const refused = got instanceof Error ? refusedAnswer(got) : undefined;
    if (refused !== undefined || expected.refused !== undefined) {
      const wanted = expected.refused === undefined ? "released" : undefined;
      if (refused === undefined) return { problems: ["refused: expected a refusal, but the answer is released"] };
      if (wanted !== undefined) return { problems: [`is refused: ${refused.code}: ${refused.message}`] };
      return { problems: refusalProblems(expected.refused ?? {}, refused) };
    }
    return answerProblems(expected, got as ShownAnswer);
  }

  #raw({ answer, stdout, args = {} }: AnswerFixture): unknown {
    if (stdout === undefined) return answer;
    const { binding } = this.#with.found;
    if (binding.readStdout === undefined) throw new Error("stdout: only a command has one: give answer");
    return binding.readStdout(Buffer.from(stdout), args);
  }
}

interface Planned {
  readonly plan?: ExecutionPlan;
  readonly refused?: Refused;
  /** Why there is no plan. */
  readonly problem?: string;
}

function refusedBy(refusal: Refusal): Refused {
  const { code, message, details = {} } = refusal;
  const issues: readonly unknown[] = Array.isArray(details["issues"]) ? details["issues"] : [];
  return { code, message, fields: issues.flatMap((issue) => (isTable(issue) ? [String(issue["path"])] : [])) };
}

function refusedAnswer(error: Error): Refused {
  if (error instanceof Refusal) return refusedBy(error);
  if (!(error instanceof Withheld)) return { code: "INTERNAL", message: error.message, fields: [] };
  return { code: error.code, message: error.message, fields: error.issues.map(({ path }) => path) };
}

function refusalProblems(
  { code, field }: { readonly code?: string | undefined; readonly field?: string | undefined },
  refused: Refused,
): readonly string[] {
  const isNamed = field === undefined || refused.fields.some((each) => plainPath(each) === plainPath(field));
  const fields = refused.fields.length === 0 ? "no field" : refused.fields.join(", ");
  return [
    ...(code === undefined || code === refused.code
      ? []
      : [`refused.code: expected ${code}, got ${refused.code}: ${refused.message}`]),
    ...(isNamed ? [] : [`refused.field: expected ${field}, got ${fields}`]),
  ];
}

/** `items[0].name` and `items.0.name` are the same path. */
function plainPath(path: string): string {
  return path.replaceAll(/\[(\d+)\]/g, ".$1");
}

interface CallFacts {
  readonly input: unknown;
  readonly planned: Planned;
  readonly verdicts: readonly string[];
  readonly refused: Refused | undefined;
}

function callProblems(expected: CallFixture, { input, planned, verdicts, refused }: CallFacts): readonly string[] {
  const verdict = expected.verdict === undefined ? [] : verdictProblems(expected.verdict, verdicts);
  if (expected.refused !== undefined) {
    if (refused === undefined) return [`refused: expected a refusal, got ${verdicts.join(" or ")}`, ...verdict];
    return [...refusalProblems(expected.refused, refused), ...verdict];
  }
  if (refused !== undefined && expected.verdict !== "deny") {
    const fields = refused.fields.length === 0 ? "" : ` (${refused.fields.join(", ")})`;
    return [`is refused: ${refused.code}: ${refused.message}${fields}`];
  }
  return [
    ...verdict,
    ...(expected.input === undefined ? [] : differences("input", expected.input, input)),
    ...(expected.plan === undefined ? [] : planProblems(expected.plan, planned)),
  ];
}

function verdictProblems(expected: string, verdicts: readonly string[]): readonly string[] {
  const kinds = [...new Set(verdicts.map((each) => (each === "allow" || each === "ask" ? each : "deny")))];
  const got = kinds.join(" or ");
  return got === expected ? [] : [`verdict: expected ${expected}, got ${verdicts.join(" or ")}`];
}

function planProblems(expected: Readonly<Record<string, Json>>, { plan, problem }: Planned): readonly string[] {
  if (problem !== undefined) return [`plan: ${problem}`];
  if (!isTable(plan)) return ["plan: there is none"];
  return Object.entries(expected).flatMap(([member, value]) => differences(`plan.${member}`, value, plan[member]));
}

function answerProblems(expected: AnswerFixture, got: ShownAnswer): Outcome {
  const removed = pathsOf(got, ["stripped", "redact", "not in the schema"]);
  const masked = pathsOf(got, ["mask", "hidden", "cleaned"]);
  const isSilent = expected.released === undefined && expected.removed === undefined && expected.masked === undefined;
  const problems = [
    ...(isSilent ? ["says nothing about what is released: stc test --update writes it"] : []),
    ...(expected.released === undefined ? [] : differences("released", expected.released, got.result)),
    ...(expected.removed === undefined ? [] : pathProblems("removed", expected.removed, removed)),
    ...(expected.masked === undefined ? [] : pathProblems("masked", expected.masked, masked)),
  ];
  if (problems.length === 0) return { problems };
  const update = {
    ...((isSilent || expected.released !== undefined) && { released: got.result }),
    ...((isSilent ? removed.length > 0 : expected.removed !== undefined) && { removed }),
    ...((isSilent ? masked.length > 0 : expected.masked !== undefined) && { masked }),
  };
  return { problems, update };
}

/** Returns the paths with these fates; those of elements once, as `items[].name`. */
function pathsOf({ fields }: ShownAnswer, fates: readonly string[]): readonly string[] {
  const found = fields.filter(({ fate }) => fates.includes(fate)).map(({ path }) => everyElement(path));
  return [...new Set(found)].sort();
}

function everyElement(path: string): string {
  return path.replaceAll(/\[\d+\]/g, "[]");
}

function pathProblems(name: string, expected: readonly string[], got: readonly string[]): readonly string[] {
  const wanted = new Set(expected.map(everyElement));
  const missing = [...wanted].filter((path) => !got.includes(path));
  const more = got.filter((path) => !wanted.has(path));
  return [
    ...missing.map((path) => `${name}: expected ${path}, which is not ${name}`),
    ...more.map((path) => `${name}: ${path} is ${name}, too`),
  ];
}

/** Returns the places at which two values of JSON differ, with both values. */
function differences(path: string, expected: unknown, got: unknown): readonly string[] {
  const found: string[] = [];
  const compare = (at: string, one: unknown, other: unknown): void => {
    if (found.length >= DIFFERENCES_MAX || Object.is(one, other)) return;
    if (Array.isArray(one) && Array.isArray(other)) {
      for (let index = 0; index < Math.max(one.length, other.length); index += 1)
        compare(`${at}[${index}]`, one[index], other[index]);
    } else if (isTable(one) && isTable(other)) {
      for (const key of new Set([...Object.keys(one), ...Object.keys(other)]))
        compare(`${at}.${key}`, one[key], other[key]);
    } else found.push(`${at}: expected ${shown(one)}, got ${shown(other)}`);
  };
  compare(path, expected, got);
  return found;
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length > VALUE_CHARACTERS_MAX ? `${text.slice(0, VALUE_CHARACTERS_MAX)}…` : text;
}

/** Writes what was released into the file, next to the comments and cases that stay. Never changes calls or refusals. */
function update({ file, cases }: FileResult): void {
  const changed = cases.filter((each) => each.update !== undefined);
  if (changed.length === 0) return;
  const document = parseDocument(readFileSync(file, "utf8"));
  for (const { field, update: members = {} } of changed) {
    const index = Number(/\d+/.exec(field)?.[0]);
    for (const [name, value] of Object.entries(members))
      document.setIn(["answers", index, name], document.createNode(value));
  }
  writeFileSync(file, document.toString({ lineWidth: 0 }));
}

function show(results: readonly FileResult[], options: TestOptions): void {
  let [passed, failed, updated] = [0, 0, 0];
  for (const { file, tool, cases, problems } of results) {
    const name = relative(process.cwd(), file) || file;
    print.line(`${name}${tool === "" ? "" : `: ${tool}`}`);
    for (const problem of problems) print.line(`  FAIL     ${problem}`);
    failed += problems.length;
    for (const each of cases) {
      const isUpdated = each.problems.length > 0 && isDone(each, options);
      let word = "FAIL";
      if (each.problems.length === 0) word = "ok";
      else if (isUpdated) word = "updated";
      if (word === "ok") passed += 1;
      else if (isUpdated) updated += 1;
      else failed += 1;
      const line = word === "ok" || each.line === undefined ? "" : `line ${each.line}: `;
      print.line(`  ${word.padEnd(7)}  ${line}${each.name}`);
      for (const problem of each.problems) print.line(`             ${problem}`);
    }
  }
  print.line(
    `${passed} passed, ${failed} failed${updated === 0 ? "" : `, ${updated} updated: read them before you commit`}`,
  );
}
