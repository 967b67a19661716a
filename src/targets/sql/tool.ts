import { isDeepStrictEqual } from "node:util";
import { type Fault, ManifestError, Refusal } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import type { Schema } from "../../core/schema/walk.ts";
import type { AnswerPlaces, Quarantine } from "../../core/target-kind.ts";
import type {
  Binding,
  ExecutionPlan,
  Json,
  PlanContext,
  PlanDescription,
  RunContext,
  SqlTarget,
  Tool,
} from "../../core/types.ts";
import type { OutgoingCall } from "../../egress/resilience.ts";
import { Drifted, runChange, tooManyRows } from "./change.ts";
import { countFaults, descriptionFaults, descriptionNotes, rowSchema } from "./checks.ts";
import {
  ANY_TYPE,
  type AnsweredRow,
  type AskedStatement,
  type DatabaseUser,
  type Description,
  type PreparedStatement,
  type SqlSystem,
  StatementRefused,
  type Texts,
} from "./engine.ts";
import { noSuchRow, otherEffects, refusalOf, SqlFailure, tooLarge } from "./failures.ts";
import { argumentsOf, CHANGED, COMPUTED, membersOf, ROWS, readPart, type SqlPart, TRUNCATED } from "./manifest.ts";
import { changePlanOf, changesMax, countParameters, planOf, rowsMax } from "./plan.ts";
import { type ColumnForm, columnForm, columnValue, parameterText, TEXT_TYPE } from "./values.ts";

/** The checked statements of a tool, and facts derived from them. */
interface Checked {
  readonly statement: PreparedStatement;
  /** Counts the rows of a change. */
  readonly counting: PreparedStatement | undefined;
  readonly columns: readonly ReadColumn[];
}

/** A column of the result. Without a schema, its text is the value. */
interface ReadColumn {
  readonly name: string;
  readonly schema: Schema | undefined;
  readonly form: ColumnForm;
}

const COUNT = "target.sql.rows.count";
const DRIFTED = "The database has changed: this tool cannot be called until an operator has checked it.";

/** A tool of a database, and whether it fits what the database says. */
export class SqlTool implements Binding {
  readonly #tool: Tool;
  readonly #part: SqlPart;
  readonly #system: SqlSystem;
  readonly #arguments: readonly string[];
  readonly #row: Schema | undefined;
  readonly #isChange: boolean;
  #checked: Checked | undefined;
  #faults: readonly Fault[] = [];

  constructor(tool: Tool, system: SqlSystem) {
    this.#tool = tool;
    this.#part = readPart(tool.target as SqlTarget);
    this.#system = system;
    this.#arguments = argumentsOf(this.#part);
    this.#row = rowSchema(tool, this.#part);
    this.#isChange = tool.classification !== "read";
  }

  /** A change calls `begin` right before COMMIT: a call that ends earlier has changed nothing. */
  get callsBegin(): boolean {
    return this.#isChange;
  }

  get #user(): DatabaseUser {
    const { name, read, write, writeSetting } = this.#system;
    if (!this.#isChange) return read;
    if (write !== undefined) return write;
    const message = `systems.${name}.sql has no ${writeSetting === "write" ? "user for " : ""}tools that change something: set ${writeSetting}`;
    throw new ManifestError(this.#tool.name, [{ field: "target.system", message }]);
  }

  /** Remarks on the tool for operators. */
  get notes(): readonly Fault[] {
    return this.#checked === undefined ? [] : descriptionNotes(this.#checked.statement.description, !this.#isChange);
  }

  /** Origins of the answers' columns, by path: as the database reports them, otherwise as the manifest declares them. */
  get places(): AnswerPlaces {
    const { one, origins = {} } = this.#part;
    const columns = this.#checked?.statement.description.columns ?? [];
    const found = columns.flatMap(({ name, origin }): [string, string][] => {
      const declared = Object.hasOwn(origins, name) && origins[name] !== COMPUTED ? origins[name] : undefined;
      const from = origin ?? declared;
      return from === undefined ? [] : [[one === true ? name : `${ROWS}[].${name}`, `${this.#system.name}: ${from}`]];
    });
    return new Map(found);
  }

  get quarantine(): Quarantine | undefined {
    if (this.#faults.length > 0) {
      return { reason: "the database has changed since the tool was loaded", changes: this.#problems };
    }
    if (this.#checked !== undefined) return undefined;
    return { reason: "the database has not been reached yet, so the tool is not checked", changes: [] };
  }

  get #problems(): readonly string[] {
    return this.#faults.map(({ field, message }) => `${field} ${message}`);
  }

  /** Checks the tool at the start. @throws {ManifestError} when it does not fit; an unreachable database is not an error */
  async load(signal: AbortSignal): Promise<void> {
    try {
      await this.#check(signal);
    } catch (error) {
      if (!(error instanceof SqlFailure)) throw error;
      if (error.code === "TARGET_UNAVAILABLE" || error.code === "DEADLINE_EXCEEDED") return;
      this.#faults = [refusedStatement(error)];
    }
    if (this.#faults.length > 0) throw new ManifestError(this.#tool.name, [...this.#faults]);
  }

  async plan(input: unknown, { signal }: PlanContext): Promise<ExecutionPlan> {
    const { statement, counting } = await this.#ready(signal);
    const { parameters } = statement.description;
    const args = isTable(input) ? input : {};
    const texts = this.#arguments.map((name, index) => parameterText(name, args[name], parameters[index] ?? TEXT_TYPE));
    const at = { system: this.#system.name, user: this.#user.name };
    if (!this.#isChange) return planOf(at, this.#part, texts);
    const matches = counting && (await this.#count(counting, texts, signal));
    const most = changesMax(this.#part);
    if (matches !== undefined && matches > most) throw tooManyRows(matches, most);
    return changePlanOf(at, this.#part, texts, { matches, effects: statement.description.effects });
  }

  describe({ effects }: ExecutionPlan): PlanDescription {
    return { notes: (effects ?? []) as readonly string[] };
  }

  fixedParts({ kind, system, user, statement, effects }: ExecutionPlan): Json {
    const fixed = { kind, system: system ?? null, user: user ?? null, statement: statement ?? null };
    return effects === undefined ? fixed : { ...fixed, effects };
  }

  async run(plan: ExecutionPlan, context: RunContext): Promise<unknown> {
    const parameters = plan["parameters"];
    if (plan["statement"] !== this.#part.statement || !Array.isArray(parameters)) {
      throw new Refusal("INTERNAL", "The call could not be made.", { cause: "the plan belongs to another statement" });
    }
    const texts = parameters as Texts;
    if (this.#isChange) return this.#change(plan, texts, context, true);
    return this.#rows(texts, context, true);
  }

  /** Returns what the tool was checked with; checks it first when the database could not be reached before. */
  async #ready(signal: AbortSignal): Promise<Checked> {
    if (this.#faults.length > 0) throw this.#quarantined();
    if (this.#checked !== undefined) return this.#checked;
    const call = this.#call(signal);
    try {
      await this.#check(signal);
    } catch (error) {
      throw error instanceof SqlFailure ? refusalOf(error, call) : error;
    }
    if (this.#checked === undefined) throw this.#quarantined();
    return this.#checked;
  }

  #quarantined(): Refusal {
    const cause = { system: this.#system.name, problems: this.#problems };
    return new Refusal("TARGET_FAILED", DRIFTED, { details: { status: "FAILED_PRECONDITION" }, cause });
  }

  /** Asks the database, and keeps what it says or what does not fit. @throws {SqlFailure} */
  async #check(signal: AbortSignal): Promise<void> {
    const { rules, read, dependsOnCaller } = this.#system;
    const { statement, rows: { count } = {} } = this.#part;
    const members = membersOf(this.#tool.input) ?? {};
    const parameters = this.#arguments.map((name) => (Object.hasOwn(members, name) ? members[name] : undefined));
    const use = this.#isChange ? "change" : "query";
    const prepared = await this.#prepare(this.#user, { statement, use, parameters }, signal);
    if (prepared === undefined) return;
    if (count !== undefined && dependsOnCaller) {
      this.#faults = [
        {
          field: COUNT,
          message:
            "cannot be used in a system with caller, because rows are counted before the caller is known: leave it out",
        },
      ];
      return;
    }
    const counted = parameters.slice(0, countParameters(count ?? ""));
    const asked = count === undefined ? undefined : ({ statement: count, use: "count", parameters: counted } as const);
    const counting = asked && (await this.#prepare(read, asked, signal));
    if (asked !== undefined && counting === undefined) return;
    const { description } = prepared;
    this.#faults = [
      ...descriptionFaults({ tool: this.#tool, part: this.#part, rules }, description),
      ...(counting === undefined ? [] : countFaults(rules, counting.description, description.parameters)),
    ];
    this.#checked =
      this.#faults.length > 0
        ? undefined
        : { statement: prepared, counting, columns: this.#readers(description.columns) };
  }

  /** Returns undefined for a statement that cannot be a tool; its errors are kept. @throws {SqlFailure} */
  async #prepare(
    user: DatabaseUser,
    asked: AskedStatement,
    signal: AbortSignal,
  ): Promise<PreparedStatement | undefined> {
    try {
      return await user.prepare(asked, signal);
    } catch (error) {
      if (!(error instanceof StatementRefused)) throw error;
      const field = asked.use === "count" ? COUNT : "target.sql.statement";
      this.#faults = error.problems.map((message) => ({ field, message }));
      return undefined;
    }
  }

  #call(signal: AbortSignal): OutgoingCall {
    return { system: this.#system.name, path: this.#tool.name, safe: true, signal };
  }

  async #rows(parameters: Texts, context: RunContext, mayCheck: boolean): Promise<unknown> {
    const { signal } = context;
    const checked = await this.#ready(signal);
    const call = this.#call(signal);
    const { resilience, read } = this.#system;
    const span = context.requests?.begin({ path: this.#tool.name, server: this.#system.server });
    try {
      const answer = await resilience.run({
        ...call,
        // One more than a result may have, to know whether there are more.
        attempt: () => checked.statement.query(parameters, rowsMax(this.#part) + 1, context),
        connected: () => read.hasAnswered,
      });
      span?.end("OK");
      if (answer.isCurrent) return this.#result(answer.rows, checked);
    } catch (error) {
      span?.end(error instanceof SqlFailure ? error.status : "UNKNOWN");
      if (!(error instanceof SqlFailure)) throw error;
      if (!error.maybeDrifted || !mayCheck) throw refusalOf(error, call);
    }
    if (!mayCheck) throw this.#quarantined();
    // The tables or functions have changed: what the tool was checked with is not true any more.
    this.#checked = undefined;
    await this.#recheck(call);
    return this.#rows(parameters, context, false);
  }

  async #recheck(call: OutgoingCall): Promise<void> {
    try {
      await this.#check(call.signal);
    } catch (error) {
      if (!(error instanceof SqlFailure)) throw error;
      const isNoAnswer = error.isUnavailable || error.code === "DEADLINE_EXCEEDED";
      if (isNoAnswer || call.signal.aborted) throw refusalOf(error, call);
      this.#faults = [refusedStatement(error)];
    }
    if (this.#faults.length > 0) throw this.#quarantined();
  }

  /** Returns the number of rows that a change would change now. */
  async #count(counting: PreparedStatement, parameters: Texts, signal: AbortSignal): Promise<number> {
    try {
      const counted = await counting.count(parameters.slice(0, counting.description.parameters.length), signal);
      if (counted !== undefined) return counted;
    } catch (error) {
      throw error instanceof SqlFailure ? refusalOf(error, this.#call(signal)) : error;
    }
    throw new Refusal("INVALID_OUTPUT", "The rows of the change could not be counted.");
  }

  async #change(plan: ExecutionPlan, parameters: Texts, context: RunContext, mayCheck: boolean): Promise<unknown> {
    const checked = await this.#ready(context.signal);
    const { statement } = checked;
    if (!isDeepStrictEqual(plan["effects"] ?? [], statement.description.effects)) throw otherEffects();
    const call = { ...this.#call(context.signal), safe: false };
    const planned = {
      system: this.#system.name,
      statement,
      parameters,
      changes: Number(plan["changes"]),
      needsRow: this.#part.one === true,
      result: (rows: readonly AnsweredRow[], changed: number) => this.#changeResult(rows, changed, checked),
    };
    try {
      return await this.#system.resilience.run({
        ...call,
        attempt: () => runChange(planned, context),
        connected: () => this.#user.hasAnswered,
      });
    } catch (error) {
      const hasDrifted = error instanceof Drifted || (error instanceof SqlFailure && error.maybeDrifted);
      if (error instanceof SqlFailure && (!hasDrifted || !mayCheck)) throw refusalOf(error, call);
      if (!hasDrifted) throw error;
    }
    if (!mayCheck) throw this.#quarantined();
    this.#checked = undefined;
    await this.#recheck(call);
    return this.#change(plan, parameters, context, false);
  }

  #changeResult(rows: readonly AnsweredRow[], changed: number, checked: Checked): unknown {
    if (this.#row === undefined) return { [CHANGED]: changed };
    const values = rows.map((row) => this.#rowOf(row, checked));
    return this.#part.one === true ? values[0] : { [ROWS]: values, [CHANGED]: changed };
  }

  #result(found: readonly AnsweredRow[], checked: Checked): unknown {
    const { one, rows: { more } = {} } = this.#part;
    if (one === true) {
      if (found.length === 0) throw noSuchRow();
      if (found.length > 1) throw new Refusal("INVALID_OUTPUT", "The database returned more than one row.");
      return this.#rowOf(found[0], checked);
    }
    const most = rowsMax(this.#part);
    const fitting = found.filter((row) => row !== undefined);
    const isCut = found.length > most || fitting.length < found.length;
    if (isCut && more === "refuse") throw tooLarge();
    const values = fitting.slice(0, most).map((row) => this.#rowOf(row, checked));
    return isCut ? { [ROWS]: values, [TRUNCATED]: true } : { [ROWS]: values };
  }

  #readers(columns: Description["columns"]): readonly ReadColumn[] {
    const members = membersOf(this.#row) ?? {};
    return columns.map(({ name, type }) => {
      const schema = Object.hasOwn(members, name) ? members[name] : undefined;
      const form = (schema && columnForm(schema)) ?? "text";
      // An engine without lists returns a list as JSON text.
      return { name, schema, form: form === "list" && type === ANY_TYPE ? "json" : form };
    });
  }

  #rowOf(row: AnsweredRow, { columns }: Checked): Readonly<Record<string, unknown>> {
    if (row === undefined) throw tooLarge();
    const read: Record<string, unknown> = {};
    for (const [index, column] of columns.entries()) {
      const value = this.#valueOf(row[index] ?? null, column);
      if (column.name === "__proto__") Object.defineProperty(read, column.name, { value, enumerable: true });
      else read[column.name] = value;
    }
    return read;
  }

  #valueOf(text: string | null, { name, schema, form }: ReadColumn): unknown {
    if (text === null) return null;
    if (text.length > this.#system.limits.cellChars) throw tooLarge();
    if (schema === undefined) return text;
    try {
      return columnValue(text, form, schema);
    } catch (error) {
      const because = error instanceof Error ? error.message : "cannot be read";
      throw new Refusal("INVALID_OUTPUT", "The service's answer could not be read.", {
        cause: { column: name, because },
      });
    }
  }
}

function refusedStatement({ message }: SqlFailure): Fault {
  return { field: "target.sql.statement", message: `the database refuses it (${message})` };
}
