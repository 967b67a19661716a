import { COMMAND_RULES } from "./commands.ts";
import { CONTEXT_RULES } from "./contexts.ts";
import { MATCHER_RULES, NAME_RULES, SQL_RULES } from "./matchers.ts";
import { PERSONAL_DATA_RULES } from "./personal-data.ts";
import type { DetectorRule } from "./rule.ts";
import { TOKEN_RULES } from "./tokens.ts";

/**
 * Every built-in rule, by table. The order decides between rules with the same anchor: the id of a key must not hide the secret
 * after it.
 */
export const DETECTOR_RULES = {
  matchers: MATCHER_RULES,
  commands: COMMAND_RULES,
  contexts: CONTEXT_RULES,
  tokens: TOKEN_RULES,
  sql: SQL_RULES,
  names: NAME_RULES,
  personalData: PERSONAL_DATA_RULES,
} satisfies Readonly<Record<string, readonly DetectorRule[]>>;
