import type { RegisteredTool } from "../core/evidence.ts";
import { isTable } from "../core/json.ts";
import type { CallerContext, Json } from "../core/types.ts";
import type { Registry } from "../pipeline/registry.ts";
import type { McpSettings } from "./part.ts";
import { invalid, type RequestId, type Table, withoutNulls } from "./protocol.ts";
import { toolsOf } from "./tools.ts";

/**
 * A long list of tools fills a model's context. Above a number of tools, a caller's list holds two: one that finds tools, and one
 * that calls a tool by its name. Both see exactly the tools that the caller can call.
 */

export const FIND_TOOLS = "find_tools";
export const CALL_TOOL = "call_tool";

const QUERY_CHARACTERS_MAX = 256;
const WORDS_MAX = 16;
const FOUND_DEFAULT = 10;
const FOUND_MAX = 25;
/** Score of a query word in a tool's name or title; a word in the description scores 1. */
const NAME_SCORE = 3;

/** The tool list of a caller with more than `searchAbove` tools. */
export const SEARCH_TOOLS: readonly Json[] = [
  {
    name: FIND_TOOLS,
    title: "Find tools",
    description:
      "Finds tools by words of their names and descriptions, with their input schemas. Call one with call_tool.",
    inputSchema: {
      type: "object",
      properties: {
        query: { type: "string", maxLength: QUERY_CHARACTERS_MAX, description: "Words to look for" },
        limit: { type: "integer", minimum: 1, maximum: FOUND_MAX, default: FOUND_DEFAULT },
      },
      required: ["query"],
      additionalProperties: false,
    },
    annotations: hints("Find tools", { readOnly: true }),
  },
  {
    name: CALL_TOOL,
    title: "Call a tool",
    description: "Calls a tool that find_tools has found.",
    inputSchema: {
      type: "object",
      properties: {
        name: { type: "string", description: "Name of the tool" },
        arguments: { type: "object", description: "Arguments that fit the tool's input schema" },
      },
      required: ["name"],
      additionalProperties: false,
    },
    annotations: hints("Call a tool", { readOnly: false }),
  },
];

function hints(title: string, { readOnly }: { readonly readOnly: boolean }) {
  const change = !readOnly;
  return { title, readOnlyHint: readOnly, destructiveHint: change, idempotentHint: readOnly, openWorldHint: change };
}

interface Searchable {
  readonly registry: Registry;
  readonly mcp: McpSettings;
}

/**
 * Returns whether the search tools replace the caller's own tools in its list. False when the service has a tool with one of
 * their names.
 */
export function isSearched({ registry, mcp: { searchAbove } }: Searchable, tools: readonly RegisteredTool[]): boolean {
  if (searchAbove === "off" || tools.length <= searchAbove) return false;
  return [FIND_TOOLS, CALL_TOOL].every((name) => registry.find(name).registered === undefined);
}

export function isSearchedFor(services: Searchable, caller: CallerContext): boolean {
  return isSearched(services, toolsOf(services.registry.list(), caller));
}

/**
 * Returns the tools that match the query best; equal matches are ordered by name.
 *
 * @throws {RpcError} invalid params
 */
export function findTools(tools: readonly RegisteredTool[], args: Table, id: RequestId): readonly RegisteredTool[] {
  const { query, limit = FOUND_DEFAULT, ...others } = args;
  if (typeof query !== "string" || query.length > QUERY_CHARACTERS_MAX || Object.keys(others).length > 0) {
    throw invalid(id, `arguments must be {query, limit?}, with a query of at most ${QUERY_CHARACTERS_MAX} characters`);
  }
  if (!Number.isInteger(limit) || (limit as number) < 1 || (limit as number) > FOUND_MAX) {
    throw invalid(id, `limit must be an integer from 1 to ${FOUND_MAX}`);
  }
  const words = query
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== "")
    .slice(0, WORDS_MAX);
  return tools
    .map((registered) => ({ registered, score: scoreOf(registered, words) }))
    .filter(({ score }) => score > 0)
    .toSorted((one, other) => other.score - one.score)
    .slice(0, limit as number)
    .map(({ registered }) => registered);
}

function scoreOf({ tool: { name, title, description } }: RegisteredTool, words: readonly string[]): number {
  const named = `${name} ${title.toLowerCase()}`;
  const described = description.toLowerCase();
  return words.reduce((score, word) => {
    return score + (named.includes(word) ? NAME_SCORE : 0) + (described.includes(word) ? 1 : 0);
  }, 0);
}

/**
 * Returns the parameters of the call that `call_tool` makes.
 *
 * @throws {RpcError} invalid params
 */
export function innerCall(args: unknown, id: RequestId): Table {
  if (!isTable(args)) throw invalid(id, "arguments must be an object");
  const { name, arguments: inner = {}, ...others } = withoutNulls(args);
  if (typeof name !== "string" || name === "" || !isTable(inner) || Object.keys(others).length > 0) {
    throw invalid(id, "arguments must be {name, arguments?}");
  }
  return { name, arguments: inner };
}
