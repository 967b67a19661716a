import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { PROFILE_RULES, PROFILES } from "../../src/pipeline/identity/profiles.ts";
import { readRevocations } from "../../src/pipeline/identity/revocations.ts";
import { readConfig } from "../support/build.ts";

const guide = readFileSync(join(import.meta.dir, "../../docs/identity.md"), "utf8");

function blocks(language: string): readonly string[] {
  return [...guide.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "gm"))].map(
    ([, block = ""]) => block,
  );
}

describe("docs/identity.md", () => {
  test("its configurations are valid", () => {
    const jwt = { issuers: [{ issuer: "https://idp.example", jwksFile: "x" }] };
    const found = blocks("yaml");
    expect(found).toHaveLength(8);
    for (const block of found) {
      const written = { tools: ["."], audit: { dir: "audit" }, jwt, ...parse(block) };
      expect(() => readConfig(written, { folder: "/", environment: {}, origin: "docs/identity.md" })).not.toThrow();
    }
  });

  test("its list of revocations is valid", () => {
    const [list = ""] = blocks("json");
    expect(readRevocations(Buffer.from(list))).toMatchObject({ entries: 4 });
  });

  test("its table says what the profiles do", () => {
    for (const name of PROFILES) {
      const row = new RegExp(`^\\| \`${name}\` \\|.*$`, "m").exec(guide)?.[0] ?? "";
      expect(row).toContain(`| ${PROFILE_RULES[name].maxLifetimeSeconds} s |`);
      expect(row.includes("the table alone")).toBe(!PROFILE_RULES[name].carriesPermissions);
    }
  });
});
