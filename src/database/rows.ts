import type { Json } from "../core/types.ts";
import type { Row } from "./dialect.ts";

export function text(row: Row, column: string): string {
  const value = row[column];
  if (typeof value !== "string") throw unreadable(column);
  return value;
}

export function integer(row: Row, column: string): number {
  // PostgreSQL returns 64-bit integers as text.
  const value = Number(row[column] ?? Number.NaN);
  if (!Number.isSafeInteger(value)) throw unreadable(column);
  return value;
}

export function optionalInteger(row: Row, column: string): number | undefined {
  return row[column] === null ? undefined : integer(row, column);
}

export function optionalText(row: Row, column: string): string | undefined {
  return row[column] === null ? undefined : text(row, column);
}

export function oneOf<T extends string>(row: Row, column: string, allowed: readonly T[]): T {
  const found = allowed.find((value) => value === row[column]);
  if (found === undefined) throw unreadable(column);
  return found;
}

export function texts(row: Row, column: string): readonly string[] {
  const list = json(row, column);
  if (!Array.isArray(list) || !list.every((item) => typeof item === "string")) throw unreadable(column);
  return list;
}

export function json(row: Row, column: string): Json {
  return JSON.parse(text(row, column)) as Json;
}

/** Names the column only: its content may come from an agent. */
export function unreadable(column: string): Error {
  return new Error(`the database contains an unreadable value in ${column}`);
}
