import { SQLiteError } from "bun:sqlite";
import { Refused } from "./child/checks.ts";
import { OpenDatabase } from "./child/database.ts";
import { Describer } from "./child/description.ts";
import { InvalidText } from "./child/values.ts";
import { INVALID_TEXT, type Request, type Response } from "./protocol.ts";

/**
 * A process that has one database open, and runs one request after another. SQLite cannot be interrupted here: the service kills this
 * process when a call's time is over. It needs nothing but this folder, and is confined to the database's files.
 */

const LINE_FEED = 0x0a;

let open: { readonly database: OpenDatabase; readonly describer: Describer } | undefined;

function answer(request: Request): unknown {
  if (request.do === "open") {
    const database = new OpenDatabase(request);
    open = { database, describer: new Describer(database) };
    return null;
  }
  if (open === undefined) throw new Error("no database is open");
  const { database, describer } = open;
  switch (request.do) {
    case "describe":
      return describer.describe(request);
    case "tables":
      return describer.tables();
    case "query":
      return database.query(request);
    case "count":
      return database.count(request);
    case "change":
      return database.change(request);
    case "commit":
      return database.commit();
    case "rollback":
      return database.rollback();
    case "recover":
      return database.recover();
  }
}

function respond(request: Request): Response {
  try {
    return { answer: answer(request) };
  } catch (error) {
    // SQLite's own texts hold values.
    if (error instanceof Refused) return { refused: [error.message] };
    if (error instanceof InvalidText) return { error: INVALID_TEXT };
    return { error: (error instanceof SQLiteError && error.code) || "SQLITE_ERROR" };
  }
}

const answers = Bun.stdout.writer();
let rest = Buffer.alloc(0);
for await (const chunk of Bun.stdin.stream()) {
  rest = Buffer.concat([rest, chunk]);
  for (let end = rest.indexOf(LINE_FEED); end !== -1; end = rest.indexOf(LINE_FEED)) {
    const request = JSON.parse(rest.subarray(0, end).toString("utf8")) as Request;
    rest = rest.subarray(end + 1);
    answers.write(`${JSON.stringify(respond(request))}\n`);
    await answers.flush();
  }
}
