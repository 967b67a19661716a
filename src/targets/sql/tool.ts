import { type Fault, ManifestError, Refusal } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import type { Schema } from "../../core/schema/walk.ts";
import type { Quarantine } from "../../core/target-kind.ts";
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
import { emptySettings, settingsOf } from "./caller.ts";
import { Drifted, runChange, tooManyRows } from "./change.ts";
import { countFaults, descriptionFaults, descriptionNotes, rowSchema } from "./checks.ts";
import type { SentRow } from "./database.ts";
import { type Description, describe, setLimits } from "./description.ts";
import { failureOf, maybeDrifted, noSuchRow, refusalOf, SqlFailure } from "./failures.ts";
import { argumentsOf, CHANGED, membersOf, ROWS, readPart, type SqlPart, TRUNCATED } from "./manifest.ts";
import { changePlanOf, changesMax, planOf, rowsMax } from "./plan.ts";
import { countParameters, countQuery, wrapped, wrappedChange } from "./statement.ts";
import type { DatabaseUser, SqlSystem } from "./system.ts";
import { type ColumnForm, columnForm, columnValue, type ParameterType, parameterText } from "./values.ts";

/** The description that a tool was checked with, and what follows from it. */
interface Checked {
  readonly description: Description;
  readonly query: string;
  readonly columns: readonly ReadColumn[];
}

/** A column of the result. Without a schema, its text is the value. */
interface ReadColumn {
  readonly name: string;
  readonly schema: Schema | undefined;
  readonly form: ColumnForm;
}

const DRIFTED = "The database has changed: this tool is not called until an operator has looked at it.";

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

  /** A change calls `begin` right before COMMIT: whatever ended before has changed nothing. */
  get callsBegin(): boolean {
    return this.#isChange;
  }

  get #user(): DatabaseUser {
    const { name, read, write } = this.#system;
    if (!this.#isChange) return read;
    if (write !== undefined) return write;
    const message = `systems.${name}.sql has no user for tools that change something: set write`;
    throw new ManifestError(this.#tool.name, [{ field: "target.system", message }]);
  }

  /** Remarks on the tool for operators. */
  get notes(): readonly Fault[] {
    return this.#checked === undefined || this.#isChange ? [] : descriptionNotes(this.#checked.description);
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

  /** Checks the tool at the start. @throws {ManifestError} when it does not fit; a database that is away is none */
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
    const { parameters } = (await this.#ready(signal)).description;
    const args = isTable(input) ? input : {};
    const texts = this.#arguments.map((name, index) => parameterText(name, args[name], parameters[index] ?? TEXT));
    const at = { system: this.#system.name, user: this.#user.name };
    if (!this.#isChange) return planOf(at, this.#part, texts);
    const matches = await this.#count(texts, signal);
    const most = changesMax(this.#part);
    if (matches !== undefined && matches > most) throw tooManyRows(matches, most);
    return changePlanOf(at, this.#part, texts, matches);
  }

  describe(): PlanDescription {
    return { notes: this.#checked?.description.effects ?? [] };
  }

  fixedParts({ kind, system, user, statement }: ExecutionPlan): Json {
    return { kind, system: system ?? null, user: user ?? null, statement: statement ?? null };
  }

  async run(plan: ExecutionPlan, context: RunContext): Promise<unknown> {
    const parameters = plan["parameters"];
    if (plan["statement"] !== this.#part.statement || !Array.isArray(parameters)) {
      throw new Refusal("INTERNAL", "The call could not be made.", { cause: "the plan belongs to another statement" });
    }
    const texts = parameters as (string | null)[];
    if (this.#isChange) return this.#change(plan, texts, context, true);
    return this.#rows(texts, context, true);
  }

  /** Returns what the tool was checked with; checks it first where the database was away. */
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
    const { rules, limits, areFunctionsChecked, newName } = this.#system;
    const { statement } = this.#part;
    const at = this.#arguments.length + 1;
    const wrap = this.#isChange ? wrappedChange : wrapped;
    const queryOf = (columns: Description["columns"]): string => wrap(statement, columns, limits, at);
    const { database } = this.#user;
    try {
      const description = await database.look(signal, (transaction) =>
        describe(transaction, {
          statement,
          change: this.#isChange ? queryOf : undefined,
          name: newName(),
          parameterCount: this.#arguments.length,
          areFunctionsChecked,
          limits,
          settings: emptySettings(this.#system.caller),
        }),
      );
      const checked = { tool: this.#tool, part: this.#part, rules };
      const { count } = this.#part.rows ?? {};
      if (count !== undefined && this.#system.caller !== undefined) {
        this.#faults = [
          {
            field: "target.sql.rows.count",
            message: "is not for a system with caller: rows are counted before it is known",
          },
        ];
        return;
      }
      const counting = count === undefined ? [] : await this.#countFaults(count, description, signal);
      this.#faults = [...descriptionFaults(checked, description), ...counting];
      const { columns } = description;
      this.#checked =
        this.#faults.length > 0 ? undefined : { description, query: queryOf(columns), columns: this.#readers(columns) };
    } catch (error) {
      throw failureOf(error);
    }
  }

  #call(signal: AbortSignal): OutgoingCall {
    return { system: this.#system.name, path: this.#tool.name, safe: true, signal };
  }

  async #rows(parameters: readonly (string | null)[], context: RunContext, mayCheck: boolean): Promise<unknown> {
    const { signal } = context;
    const checked = await this.#ready(signal);
    const call = this.#call(signal);
    const { resilience, read } = this.#system;
    const span = context.requests?.begin({ path: this.#tool.name, server: this.#system.server });
    try {
      const rows = await resilience.run({
        ...call,
        attempt: () => this.#attempt(parameters, checked, context),
        connected: () => read.database.hasAnswered,
      });
      span?.end("OK");
      if (rows.every(([digest]) => digest === checked.description.digest)) return this.#result(rows, checked);
    } catch (error) {
      span?.end(error instanceof SqlFailure ? error.status : "UNKNOWN");
      if (!(error instanceof SqlFailure)) throw error;
      if (!maybeDrifted(error) || !mayCheck) throw refusalOf(error, call);
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

  async #attempt(
    parameters: readonly (string | null)[],
    { query, description }: Checked,
    { signal, caller }: RunContext,
  ): Promise<readonly SentRow[]> {
    const { read, limits } = this.#system;
    const settings = settingsOf(this.#system.caller, caller);
    try {
      return await read.database.read(signal, async (transaction) => {
        await setLimits(transaction, limits, settings);
        // One more than a result may have, to know whether there are more.
        const asked = String(rowsMax(this.#part) + 1);
        return transaction.query(query, [...parameters, asked, ...description.dependencies]);
      });
    } catch (error) {
      throw failureOf(error);
    }
  }

  /** Checks the query that counts the rows of a change, as any other query of the user that reads. */
  async #countFaults(count: string, { parameters }: Description, signal: AbortSignal): Promise<readonly Fault[]> {
    const { read, rules, limits, areFunctionsChecked, newName } = this.#system;
    const asked = {
      statement: count,
      name: newName(),
      parameterCount: countParameters(count),
      areFunctionsChecked,
      limits,
      settings: [],
    };
    const counting = await read.database.look(signal, (transaction) => describe(transaction, asked));
    return countFaults(rules, counting, parameters);
  }

  /** Returns the number of rows that a change would change now; undefined where its manifest does not count them. */
  async #count(parameters: readonly (string | null)[], signal: AbortSignal): Promise<number | undefined> {
    const count = this.#part.rows?.count;
    if (count === undefined) return undefined;
    const { read, limits } = this.#system;
    try {
      return await read.database.read(signal, async (transaction) => {
        await setLimits(transaction, limits);
        const [[counted] = []] = await transaction.query(
          countQuery(count),
          parameters.slice(0, countParameters(count)),
        );
        if (typeof counted !== "string")
          throw new Refusal("INVALID_OUTPUT", "The rows of the change could not be counted.");
        return Number(counted);
      });
    } catch (error) {
      throw error instanceof Refusal ? error : refusalOf(failureOf(error), this.#call(signal));
    }
  }

  async #change(
    plan: ExecutionPlan,
    parameters: readonly (string | null)[],
    context: RunContext,
    mayCheck: boolean,
  ): Promise<unknown> {
    const checked = await this.#ready(context.signal);
    const { description, query } = checked;
    const call = { ...this.#call(context.signal), safe: false };
    const changes = Number(plan["changes"]);
    const needsRow = this.#part.one === true;
    const all = [...parameters, String(changes + 1), ...description.dependencies];
    const result = (rows: readonly SentRow[]): unknown => this.#changeResult(rows, checked);
    const planned = {
      system: this.#system,
      user: this.#user,
      query,
      digest: description.digest,
      changes,
      needsRow,
      result,
    };
    try {
      return await this.#system.resilience.run({
        ...call,
        attempt: () => runChange({ ...planned, parameters: all }, context),
        connected: () => this.#user.database.hasAnswered,
      });
    } catch (error) {
      const hasDrifted = error instanceof Drifted || (error instanceof SqlFailure && maybeDrifted(error));
      if (error instanceof SqlFailure && (!hasDrifted || !mayCheck)) throw refusalOf(error, call);
      if (!hasDrifted) throw error;
    }
    if (!mayCheck) throw this.#quarantined();
    this.#checked = undefined;
    await this.#recheck(call);
    return this.#change(plan, parameters, context, false);
  }

  #changeResult(rows: readonly SentRow[], checked: Checked): unknown {
    const changed = Number(rows[0]?.[2] ?? 0);
    const values = changed === 0 ? [] : rows.map((row) => this.#rowOf(row, checked));
    return this.#part.one === true ? values[0] : { [ROWS]: values, [CHANGED]: changed };
  }

  #result(rows: readonly SentRow[], checked: Checked): unknown {
    const { one, rows: { more } = {} } = this.#part;
    const found = rows.filter(([, exceeds]) => exceeds !== null);
    const fitting = found.filter(([, exceeds]) => exceeds === false);
    if (one === true) {
      const [only, another] = found;
      if (only === undefined) throw noSuchRow();
      if (another !== undefined) throw new Refusal("INVALID_OUTPUT", "The database returned more than one row.");
      if (fitting.length === 0) throw tooLarge();
      return this.#rowOf(only, checked);
    }
    const most = rowsMax(this.#part);
    const isCut = found.length > most || fitting.length < found.length;
    if (isCut && more === "refuse") throw tooLarge();
    const values = fitting.slice(0, most).map((row) => this.#rowOf(row, checked));
    return { [ROWS]: values, ...(isCut && { [TRUNCATED]: true }) };
  }

  #readers(columns: Description["columns"]): readonly ReadColumn[] {
    const members = membersOf(this.#row) ?? {};
    return columns.map(({ name }) => {
      const schema = Object.hasOwn(members, name) ? members[name] : undefined;
      return { name, schema, form: (schema && columnForm(schema)) ?? "text" };
    });
  }

  #rowOf(row: SentRow, { columns }: Checked): Readonly<Record<string, unknown>> {
    const cells = row.slice(this.#isChange ? 3 : 2);
    return Object.fromEntries(
      columns.map(({ name, schema, form }, index) => {
        const cell = cells[index] ?? null;
        const text = cell === null ? null : String(cell);
        if (text !== null && text.length > this.#system.limits.cellChars) throw tooLarge();
        try {
          return [name, schema === undefined ? text : columnValue(text, form, schema)];
        } catch (error) {
          const because = error instanceof Error ? error.message : "cannot be read";
          throw new Refusal("INVALID_OUTPUT", "The service's answer could not be read.", {
            cause: { column: name, because },
          });
        }
      }),
    );
  }
}

const TEXT: ParameterType = { name: "text", isList: false, isEnum: false };

function refusedStatement({ message }: SqlFailure): Fault {
  return { field: "target.sql.statement", message: `the database refuses it (${message})` };
}

function tooLarge(): Refusal {
  return new Refusal("OUTPUT_TOO_LARGE", "The result is larger than this tool may return. Ask for less.");
}
