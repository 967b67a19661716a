import { expect, test } from "bun:test";
import type { Endpoint } from "../../src/http/endpoint.ts";
import { AGENTS_SERVERS } from "../http/agents-servers.ts";
import { CONSOLE_ENDPOINTS, ENDPOINTS } from "../http/server-parts.ts";
import { testIsolation } from "./isolation.ts";
import { ELSEWHERE, FOREIGN, READINGS } from "./probes.ts";
import { sqliteTables } from "./tables.ts";

const store = async (): Promise<undefined> => undefined;

for (const http of AGENTS_SERVERS) {
  testIsolation(`SQLite, ${http}`, { http, store, tables: sqliteTables });
}

test("every endpoint is asked, or is in the list of those that other tests ask", () => {
  const nameOf = ({ method, path }: Endpoint): string => `${method} ${path}`;
  const asked = new Set([...READINGS, ...FOREIGN].map(({ endpoint }) => endpoint));
  const elsewhere = Object.keys(ELSEWHERE);
  const declared = [...ENDPOINTS, ...CONSOLE_ENDPOINTS].map(nameOf);
  expect(elsewhere.filter((name) => asked.has(name))).toEqual([]);
  expect([...asked, ...elsewhere].sort()).toEqual(declared.sort());
});
