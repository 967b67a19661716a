import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parsePostgresUrl } from "../../src/database/postgres-url.ts";

const PLACE = {
  hostname: "db.example",
  port: 5432,
  database: "approvals",
  username: "stc",
  password: "secret",
  sslMode: "verify-full",
  rootCert: undefined,
  cert: undefined,
  key: undefined,
  isPooled: false,
};

const READ: readonly (readonly [url: string, place: Partial<typeof PLACE> | Record<string, unknown>])[] = [
  ["postgres://stc:secret@db.example/approvals", {}],
  ["postgresql://stc:secret@db.example:6432/approvals", { port: 6432 }],
  ["postgres://s%20c:p%40%3A%2F%25%C3%BC@db.example/a%20b", { username: "s c", password: "p@:/%ü", database: "a b" }],
  ["postgres://stc@db.example/approvals", { password: "" }],
  ["postgres://stc:secret@localhost/approvals", { hostname: "localhost", sslMode: "disable" }],
  ["postgres://stc:secret@127.0.0.7/approvals", { hostname: "127.0.0.7", sslMode: "disable" }],
  ["postgres://stc:secret@[::1]/approvals", { hostname: "::1", sslMode: "disable" }],
  ["postgres://stc:secret@[2001:db8::1]/approvals", { hostname: "2001:db8::1", sslMode: "verify-full" }],
  ["postgres://stc:secret@localhost.evil.example/approvals", { hostname: "localhost.evil.example" }],
  ["postgres://stc:secret@db.example/approvals?sslmode=disable", { sslMode: "disable" }],
  ["postgres://stc:secret@localhost/approvals?sslmode=verify-full", { hostname: "localhost" }],
  ["postgres://stc:secret@db.example/approvals?sslrootcert=/etc/ca.pem", { rootCert: "/etc/ca.pem" }],
  [
    "postgres://stc:secret@db.example/approvals?sslmode=verify-ca&sslcert=/c.pem&sslkey=/k.pem",
    { sslMode: "verify-ca", cert: "/c.pem", key: "/k.pem" },
  ],
  ["postgres://stc:secret@db.example/approvals?pgbouncer=true", { isPooled: true }],
  ["postgres://stc:secret@db.example/approvals?sslmode=require&pgbouncer=false", { sslMode: "require" }],
];

test.each(READ)("%s is read", (url, place) => {
  expect(parsePostgresUrl(url)).toEqual({ ...PLACE, ...place } as never);
});

const REFUSED: readonly (readonly [url: string, message: string])[] = [
  ["mysql://stc:secret@db.example/approvals", "is not a postgres:// URL"],
  ["postgres:stc:secret", "names no host or no user"],
  ["postgres://stc:secret@db.example:99999/approvals", "is not a postgres:// URL"],
  [`postgres://stc:secret@db.example/${"a".repeat(5_000)}`, "is not a postgres:// URL"],
  ["postgres://db.example/approvals", "names no host or no user"],
  ["postgres:///approvals", "names no host or no user"],
  ["postgres://stc:secret@db.example", "must name one database"],
  ["postgres://stc:secret@db.example/", "must name one database"],
  ["postgres://stc:secret@db.example/a/b", "must name one database"],
  ["postgres://stc:se#cret@db.example/approvals", "are written %23"],
  ["postgres://stc:secret@db.example/approvals#x", "write %23"],
  ["postgres://stc:100%secret@db.example/approvals", "write %25"],
  ["postgres://stc:secret@db.example/approvals?sslmode=prefer", "must have an sslmode of disable, require"],
  ["postgres://stc:secret@db.example/approvals?sslmode=", "must have an sslmode of disable, require"],
  ["postgres://stc:secret@db.example/approvals?sslmode=disable&sslmode=require", "once each"],
  ["postgres://stc:secret@db.example/approvals?options=-csearch_path%3Dx", "once each"],
  ["postgres://stc:secret@db.example/approvals?SSLMODE=disable", "once each"],
  ["postgres://stc:secret@db.example/approvals?sslrootcert=ca.pem", "by absolute paths"],
  ["postgres://stc:secret@db.example/approvals?sslcert=/c.pem", "sslcert and sslkey together"],
  ["postgres://stc:secret@db.example/approvals?sslmode=disable&sslrootcert=/ca.pem", "sslmode=disable uses none"],
  ["postgres://stc:secret@db.example/approvals?sslmode=require&sslrootcert=/ca.pem", "use verify-full"],
  ["postgres://stc:secret@db.example/approvals?pgbouncer=1", "pgbouncer=true or pgbouncer=false"],
  ["postgres://stc:secret@db.example/approvals?pgbouncer", "pgbouncer=true or pgbouncer=false"],
];

describe.each(REFUSED)("%s", (url, message) => {
  test("is refused, and its password is not quoted", () => {
    expect(() => parsePostgresUrl(url)).toThrow(message);
    expect(() => parsePostgresUrl(url)).toThrow(/^(?:(?!secret|cret@).)*$/);
  });
});

test("any user, password and database are read as they were written", () => {
  const part = fc.string({ unit: "grapheme", minLength: 1, maxLength: 30 }).map((text) => text.toWellFormed());
  const property = fc.property(part, part, part, (username, password, database) => {
    fc.pre(!database.includes("/"));
    const [user, pass, name] = [username, password, database].map(encodeURIComponent);
    const url = `postgres://${user}:${pass}@db.example/${name}`;
    if (database === "." || database === "..") return;
    expect(parsePostgresUrl(url)).toMatchObject({ username, password, database, hostname: "db.example" });
  });
  fc.assert(property, { numRuns: 500 });
});

test("no text makes the parser throw, and none is quoted", () => {
  const mark = "Q7zX";
  const property = fc.property(fc.string({ maxLength: 60 }), fc.string({ maxLength: 60 }), (before, after) => {
    try {
      parsePostgresUrl(`postgres://${before}${mark}${after}`);
    } catch (error) {
      expect(String(error)).toStartWith("Error: the URL of the approvals store ");
      expect(String(error)).not.toContain(mark);
    }
  });
  fc.assert(property, { numRuns: 1_000 });
});
