import { type Fault, ManifestError, Refusal } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import type { Schema } from "../../core/schema/walk.ts";
import type { Quarantine } from "../../core/target-kind.ts";
import type { Binding, ExecutionPlan, Json, PlanContext, RunContext, SqlTarget, Tool } from "../../core/types.ts";
import type { OutgoingCall } from "../../egress/resilience.ts";
import { descriptionFaults, descriptionNotes, rowSchema } from "./checks.ts";
import { type Description, describe, digestParameters, setLimits } from "./description.ts";
import { failureOf, maybeDrifted, refusalOf, SqlFailure } from "./failures.ts";
import { argumentsOf, membersOf, ROWS, readPart, type SqlPart, TRUNCATED } from "./manifest.ts";
import { planOf, rowsMax } from "./plan.ts";
import { wrapped } from "./statement.ts";
import type { SqlSystem } from "./system.ts";
import { columnForm, columnValue, type ParameterType, parameterText } from "./values.ts";

type Row = readonly (string | boolean | null)[];

/** The description that a tool was checked with, and the query that follows from it. */
interface Checked {
  readonly description: Description;
  readonly query: string;
}

const DRIFTED = "The database has changed: this tool is not called until an operator has looked at it.";

/** A tool of a database, and whether it fits what the database says. */
export class SqlTool implements Binding {
  readonly #tool: Tool;
  readonly #part: SqlPart;
  readonly #system: SqlSystem;
  readonly #arguments: readonly string[];
  readonly #row: Schema | undefined;
  #checked: Checked | undefined;
  #faults: readonly Fault[] = [];

  constructor(tool: Tool, system: SqlSystem) {
    this.#tool = tool;
    this.#part = readPart(tool.target as SqlTarget);
    this.#system = system;
    this.#arguments = argumentsOf(this.#part);
    this.#row = rowSchema(tool, this.#part);
  }

  /** What an operator should know of the tool. */
  get notes(): readonly Fault[] {
    return this.#checked === undefined ? [] : descriptionNotes(this.#checked.description);
  }

  get quarantine(): Quarantine | undefined {
    if (this.#faults.length > 0) {
      const changes = this.#faults.map(({ field, message }) => `${field} ${message}`);
      return { reason: "the database has changed since the tool was loaded", changes };
    }
    if (this.#checked !== undefined) return undefined;
    return { reason: "the database has not been reached yet, so the tool is not checked", changes: [] };
  }

  /** Checks the tool at the start. @throws {ManifestError} when it does not fit; a database that is away is none */
  async load(signal: AbortSignal): Promise<void> {
    try {
      await this.#check(signal);
    } catch (error) {
      if (!(error instanceof SqlFailure)) throw error;
      if (error.code === "TARGET_UNAVAILABLE" || error.code === "DEADLINE_EXCEEDED") return;
      this.#faults = [{ field: "target.sql.statement", message: `the database refuses it (${error.message})` }];
    }
    if (this.#faults.length > 0) throw new ManifestError(this.#tool.name, [...this.#faults]);
  }

  async plan(input: unknown, { signal }: PlanContext): Promise<ExecutionPlan> {
    const { parameters } = (await this.#ready(signal)).description;
    const args = isTable(input) ? input : {};
    const texts = this.#arguments.map((name, index) => parameterText(name, args[name], parameters[index] ?? TEXT));
    return planOf({ system: this.#system.name, user: this.#system.user }, this.#part, texts);
  }

  fixedParts({ kind, system, user, statement }: ExecutionPlan): Json {
    return { kind, system: system ?? null, user: user ?? null, statement: statement ?? null };
  }

  async run(plan: ExecutionPlan, context: RunContext): Promise<unknown> {
    const parameters = plan["parameters"];
    if (plan["statement"] !== this.#part.statement || !Array.isArray(parameters)) {
      throw new Refusal("INTERNAL", "The call could not be made.", { cause: "the plan belongs to another statement" });
    }
    const rows = await this.#rows(parameters as (string | null)[], context, true);
    return this.#result(rows);
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
    const cause = {
      system: this.#system.name,
      problems: this.#faults.map(({ field, message }) => `${field} ${message}`),
    };
    return new Refusal("TARGET_FAILED", DRIFTED, { details: { status: "FAILED_PRECONDITION" }, cause });
  }

  /** Asks the database, and keeps what it says or what does not fit. @throws {SqlFailure} */
  async #check(signal: AbortSignal): Promise<void> {
    const { database, rules, limits, areFunctionsChecked, newName } = this.#system;
    const { statement } = this.#part;
    try {
      const description = await database.look(signal, (transaction) =>
        describe(transaction, {
          statement,
          name: newName(),
          parameterCount: this.#arguments.length,
          areFunctionsChecked,
          limits,
        }),
      );
      this.#faults = descriptionFaults({ tool: this.#tool, part: this.#part, rules }, description);
      this.#checked =
        this.#faults.length > 0
          ? undefined
          : { description, query: wrapped(statement, description.columns, limits, this.#arguments.length + 1) };
    } catch (error) {
      throw failureOf(error);
    }
  }

  #call(signal: AbortSignal): OutgoingCall {
    return { system: this.#system.name, path: this.#tool.name, safe: true, signal };
  }

  async #rows(parameters: readonly (string | null)[], context: RunContext, mayCheck: boolean): Promise<readonly Row[]> {
    const { signal } = context;
    const checked = await this.#ready(signal);
    const call = this.#call(signal);
    const { resilience, database } = this.#system;
    const span = context.requests?.begin({ path: this.#tool.name, server: this.#system.server });
    try {
      const rows = await resilience.run({
        ...call,
        attempt: () => this.#attempt(parameters, checked, signal),
        connected: () => database.hasAnswered,
      });
      span?.end("OK");
      if (rows.every(([digest]) => digest === checked.description.digest)) return rows;
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
      if (error.isUnavailable || call.signal.aborted) throw refusalOf(error, call);
      this.#faults = [{ field: "target.sql.statement", message: `the database refuses it (${error.message})` }];
    }
    if (this.#faults.length > 0) throw this.#quarantined();
  }

  async #attempt(
    parameters: readonly (string | null)[],
    { query, description }: Checked,
    signal: AbortSignal,
  ): Promise<readonly Row[]> {
    const { database, limits } = this.#system;
    const ids = { relations: description.relations, functions: (description.functions ?? []).map(({ id }) => id) };
    try {
      return await database.read(signal, async (transaction) => {
        await setLimits(transaction, limits);
        // One more than a result may have, to know whether there are more.
        const asked = String(rowsMax(this.#part) + 1);
        return transaction.query(query, [...parameters, asked, ...digestParameters(ids)]);
      });
    } catch (error) {
      throw failureOf(error);
    }
  }

  #result(rows: readonly Row[]): unknown {
    const { one, rows: { more } = {} } = this.#part;
    const found = rows.filter(([, exceeds]) => exceeds !== null);
    const fitting = found.filter(([, exceeds]) => exceeds === false);
    if (one === true) {
      const [only, another] = found;
      if (only === undefined) {
        throw new Refusal("TARGET_REFUSED", "There is no such row.", { details: { status: "NOT_FOUND" } });
      }
      if (another !== undefined) throw new Refusal("INVALID_OUTPUT", "The database returned more than one row.");
      if (fitting.length === 0) throw tooLarge();
      return this.#rowOf(only);
    }
    const most = rowsMax(this.#part);
    const isCut = found.length > most || fitting.length < found.length;
    if (isCut && more === "refuse") throw tooLarge();
    const values = fitting.slice(0, most).map((row) => this.#rowOf(row));
    return { [ROWS]: values, ...(isCut && { [TRUNCATED]: true }) };
  }

  #rowOf([, , ...cells]: Row): Readonly<Record<string, unknown>> {
    const columns = this.#checked?.description.columns ?? [];
    const members = membersOf(this.#row) ?? {};
    return Object.fromEntries(
      columns.map(({ name }, index) => {
        const schema = members[name];
        const cell = cells[index] ?? null;
        const text = cell === null ? null : String(cell);
        if (text !== null && text.length > this.#system.limits.cellChars) throw tooLarge();
        const form = schema === undefined ? "text" : (columnForm(schema) ?? "text");
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

function tooLarge(): Refusal {
  return new Refusal("OUTPUT_TOO_LARGE", "The result is larger than this tool may return. Ask for less.");
}
