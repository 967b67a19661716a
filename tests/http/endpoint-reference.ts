import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Endpoint, listenersOf, methodsOf } from "../../src/http/endpoint.ts";
import { withSection } from "../support/generated-section.ts";
import { CONSOLE_ENDPOINTS, ENDPOINTS } from "./server-parts.ts";

/**
 * The table of endpoints in docs/endpoints.md, generated from their declarations. Run as a program it writes the page; a test
 * compares.
 */
export const PAGE = join(resolve(import.meta.dir, "../.."), "docs/endpoints.md");

/** The settings of the console's own endpoints, which are created only with it. */
const CONSOLE_WITH: Readonly<Record<string, string>> = {
  "/console/links": "`stc serve --dev`",
  "/console/sign-in": "`console.oidc`",
};

function endpointReference(): string {
  const rows = [...ENDPOINTS, ...CONSOLE_ENDPOINTS]
    .toSorted((one, other) => one.path.localeCompare(other.path, "en"))
    .map((endpoint) => {
      const { method, path, summary, onlyWith = "" } = endpoint;
      const also = methodsOf(endpoint).length > 1 ? ", HEAD" : "";
      const isConsole = CONSOLE_ENDPOINTS.includes(endpoint);
      const setting = isConsole ? (CONSOLE_WITH[path] ?? "`server.console`") : onlyWith;
      const cells = [
        ...[`\`${method} ${path}\`${also}`, summary, whoIsAnswered(endpoint)],
        ...[listenersOf(endpoint).join(", "), recorded(endpoint), setting],
      ];
      return `| ${cells.join(" | ")} |`;
    });
  return ["| endpoint | does | for | listeners | recorded as | only with |", "|---|---|---|---|---|---|", ...rows].join(
    "\n",
  );
}

function whoIsAnswered({ audience, permission, anyPermission }: Endpoint): string {
  if (anyPermission === true) return "operators";
  const operators = `operators with \`${permission}\``;
  if (audience === "operators") return operators;
  if (audience === "either") return `agents; ${operators}`;
  if (audience === "signers") return "whoever signs the body";
  return permission === undefined ? audience : `${audience}; more for ${operators}`;
}

function recorded({ audited }: Endpoint): string {
  if (audited === "no") return "";
  return audited === "call" || audited === "change" ? `a ${audited}` : `\`${audited}\``;
}

/** The page with this table in its place. */
export function withReference(page: string): string {
  return withSection(page, "docs:endpoints", endpointReference());
}

if (import.meta.main) writeFileSync(PAGE, withReference(readFileSync(PAGE, "utf8")));
