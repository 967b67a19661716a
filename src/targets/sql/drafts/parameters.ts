import type { Json } from "../../../core/types.ts";
import type { Catalog, CatalogColumn } from "../engine.ts";
import { plainName } from "./names.ts";
import { argumentSchema } from "./schemas.ts";

interface Argument {
  readonly name: string;
  readonly schema: Json;
  readonly isRequired: boolean;
}

/** The parameters of a statement that is being written, and their arguments. */
export class DraftParameters {
  readonly #catalog: Catalog;
  /** Arguments by the name of the column, and of the argument that the author sees. */
  readonly #arguments = new Map<string, Argument>();
  readonly #references: string[] = [];

  constructor(catalog: Catalog) {
    this.#catalog = catalog;
  }

  /** The argument of each parameter, in braces. */
  get references(): readonly string[] {
    return this.#references;
  }

  /** Returns a parameter for the values of a column, which every call supplies. */
  argument(column: CatalogColumn, name = column.name): string {
    return this.#parameter(column, name, true);
  }

  /** Returns a parameter that is NULL in calls that leave it out. */
  optional(column: CatalogColumn, name = column.name): string {
    return this.#parameter(column, name, false);
  }

  input(): Json {
    const all = [...this.#arguments.values()];
    const required = all.filter(({ isRequired }) => isRequired).map(({ name }) => name);
    return {
      type: "object",
      additionalProperties: false,
      ...(required.length > 0 && { required }),
      properties: Object.fromEntries(all.map(({ name, schema }) => [name, schema])),
    };
  }

  #parameter(column: CatalogColumn, wanted: string, isRequired: boolean): string {
    const { parameter, comment, labels, charsMax } = column;
    if (parameter === undefined) throw new Error("the column has no values that a parameter can have");
    const known = this.#arguments.get(wanted) ?? {
      name: this.#nameFor(wanted),
      schema: argumentSchema(parameter.type, { labels, charsMax, comment }),
      isRequired,
    };
    this.#arguments.set(wanted, known);
    return parameter.sql(this.#reference(`{${known.name}}`));
  }

  /** Returns how the statement refers to an argument: a mark is one use, a number is one argument. */
  #reference(argument: string): string {
    const found = this.#catalog.parameters === "numbered" ? this.#references.indexOf(argument) : -1;
    const at = found === -1 ? this.#references.push(argument) : found + 1;
    return this.#catalog.parameters === "numbered" ? `$${at}` : "?";
  }

  #nameFor(wanted: string): string {
    return plainName(wanted, new Set([...this.#arguments.values()].map(({ name }) => name)), "argument");
  }
}
