import { readFileSync } from "node:fs";
import { processEnvironment } from "../config-file.ts";
import type { CallResult } from "../core/call-result.ts";
import { print } from "./output.ts";

export interface CallCommandOptions {
  readonly url?: string;
  readonly tokenFile?: string;
  readonly json?: boolean;
}

const DEFAULT_URL = "http://127.0.0.1:8787";
const EXIT = { refused: 1, unreachable: 2, usage: 64 } as const;

/** `stc call`: one call of a running service. Exit 0 success, 1 refused or failed, 2 not reached, 64 wrong usage. */
export async function call(tool: string, args: string, options: CallCommandOptions): Promise<void> {
  const environment = processEnvironment();
  const tokenFile = options.tokenFile ?? environment["STC_TOKEN_FILE"];
  const body = readArguments(tool, args);
  const token = tokenFile ? readToken(tokenFile) : undefined;
  if (body === undefined || token === undefined) {
    print.error(
      body === undefined ? "the arguments are not a JSON object" : "no token: set STC_TOKEN_FILE or give --token-file",
    );
    process.exitCode = EXIT.usage;
    return;
  }
  const url = options.url ?? environment["STC_URL"] ?? DEFAULT_URL;
  const result = await send(url, token, body);
  if (result === undefined) {
    print.error(`no answer from ${url}`);
    process.exitCode = EXIT.unreachable;
    return;
  }
  print.json(result, options.json === true ? undefined : 2);
  if (result.status !== "success") process.exitCode = EXIT.refused;
}

function readArguments(tool: string, args: string): string | undefined {
  try {
    const parsed: unknown = JSON.parse(args);
    const isObject = typeof parsed === "object" && parsed !== null && !Array.isArray(parsed);
    // As typed: what the service refuses (a key twice, a number too large) must reach it unmended.
    return isObject ? `{"tool":${JSON.stringify(tool)},"args":${args}}` : undefined;
  } catch {
    return undefined;
  }
}

function readToken(file: string): string | undefined {
  try {
    return readFileSync(file === "-" ? 0 : file, "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}

async function send(url: string, token: string, body: string): Promise<CallResult | undefined> {
  try {
    const response = await fetch(new URL("/call", url), {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body,
      redirect: "error",
    });
    return (await response.json()) as CallResult;
  } catch {
    return undefined;
  }
}
