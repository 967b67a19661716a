import { lstatSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import zodPackage from "zod/package.json" with { type: "json" };
import { systemCode } from "../core/error-text.ts";
import { printableCell } from "../core/printable.ts";
import { VERSION } from "../core/version.ts";
import { MODULES } from "../modules.ts";
import { editorSchema } from "../runtime/manifests/editor-schema.ts";
import { isClone } from "../runtime/own-code.ts";
import { fixturesSchema } from "./authoring/fixtures.ts";
import { DATABASE, DATABASE_FILES, DATABASE_SYSTEM, NEXT_DATABASE, writeDatabase } from "./init-database.ts";
import { CommandError, EXIT, print } from "./output.ts";

/** Files that a project may have already. They are left as they are. */
const SHARED: ReadonlySet<string> = new Set(["package.json", "tsconfig.json", ".gitignore", "README.md"]);

/**
 * `stc init`: writes a service that runs at once, with keys for this machine. Replaces no file.
 *
 * @throws {CommandError} that names the files that are there already
 */
export async function init(directory: string, { database }: { readonly database: boolean }): Promise<void> {
  const { DEVELOPMENT_ISSUERS, developmentKeys } = await import("./development/keys.ts");
  const { default: schema } = await import("../../docs/configuration.schema.json", { with: { type: "json" } });
  const folder = resolve(directory);
  const files = Object.entries({
    ...scaffold(basename(folder), DEVELOPMENT_ISSUERS, schema),
    ...(database && { "stc.yaml": `${configurationFile(DEVELOPMENT_ISSUERS)}${DATABASE_SYSTEM}`, ...DATABASE_FILES }),
  });
  const isThere = (path: string): boolean => exists(join(folder, path));
  const shown = (path: string): string => printableCell(join(directory, path));
  const paths = files.map(([path]) => path);
  const taken = [
    ...paths.filter((path) => !SHARED.has(path) && !path.startsWith("keys/") && isThere(path)),
    ...["keys", ...(database ? [DATABASE] : [])].filter(isThere),
    ...["tools", "tests"].filter((path) => isThere(path) && !isFolder(join(folder, path))),
  ];
  if (taken.length > 0) {
    const list = taken.map(shown).join(", ");
    throw new CommandError(
      EXIT.failed,
      `nothing is written: ${list} ${taken.length === 1 ? "exists" : "exist"} already`,
    );
  }
  const kept = paths.filter((path) => SHARED.has(path) && isThere(path));
  for (const [path, text] of files) if (!kept.includes(path)) write(join(folder, path), text);
  await developmentKeys(join(folder, "keys"));
  if (database) await writeDatabase(join(folder, DATABASE));
  for (const path of paths) if (!kept.includes(path) && !path.startsWith("keys/")) print.line(`wrote ${shown(path)}`);
  if (database) print.line(`wrote ${shown(DATABASE)}, a SQLite database with three customers and their orders`);
  print.line(`wrote ${shown("keys")}, private keys for this machine; git ignores them`);
  for (const path of kept) print.line(`kept  ${shown(path)}${KEPT_ADVICE[path] ?? ""}`);
  print.line(
    `\nNext${directory === "." ? "" : `, in ${printableCell(directory)}`}:\n\n${[...NEXT, ...(database ? NEXT_DATABASE : [])].map((line) => `  ${line}`.trimEnd()).join("\n")}`,
  );
}

const KEPT_ADVICE: Readonly<Record<string, string>> = {
  ".gitignore": ": add var/, which will hold a private key, and *.token to it",
  "package.json": ": add safe-tool-call and zod to its dependencies",
};

function exists(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    // Something above is not a folder; writing reports it.
    return false;
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** @throws {CommandError} */
function write(path: string, text: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text, { flag: "wx" });
  } catch (error) {
    throw new CommandError(EXIT.failed, `${printableCell(path)} cannot be written (${systemCode(error)})`);
  }
}

const AGENT_TOKEN =
  "stc token --keys keys --sub agent-1 --permission notes:read --permission notes:write > agent.token";
const SEARCH = `stc call search_notes '{"word":"tea"}' --token-file agent.token`;
const ADD = `stc call add_note '{"title":"Mate","text":"70 degrees."}' --token-file agent.token`;
const OPERATOR_TOKEN = "stc token --keys keys --operator --sub me > operator.token";
const APPROVE = "stc approvals watch --token-file operator.token";
const PUBLIC_KEY = "stc audit keys --key var/audit.key > audit-public.pem";
const VERIFY = "stc audit verify --dir var/audit --key audit-public.pem";
const NEXT = [
  "stc serve --config stc.yaml",
  "",
  "and in another terminal, an agent's call:",
  "",
  AGENT_TOKEN,
  SEARCH,
  "",
  "a change, which waits for a person; be that person, then make the same call again:",
  "",
  ADD,
  OPERATOR_TOKEN,
  APPROVE,
  "",
  "and the record of it all:",
  "",
  PUBLIC_KEY,
  VERIFY,
] as const;

type Issuers = typeof import("./development/keys.ts").DEVELOPMENT_ISSUERS;

/** Returns the files of a new service by their paths. */
function scaffold(name: string, issuers: Issuers, configurationSchema: object): Readonly<Record<string, string>> {
  return {
    "stc.yaml": configurationFile(issuers),
    "stc.schema.json": `${JSON.stringify(configurationSchema)}\n`,
    "tools/notes.ts": FUNCTION_TOOLS,
    "tools/search-notes.test.yaml": SEARCH_FIXTURES,
    "tools/add-note.test.yaml": ADD_FIXTURES,
    "tools/get-health.tool.yaml": DATA_TOOL,
    "tests/notes.test.ts": TEST,
    "tools/tool.schema.json": `${JSON.stringify(editorSchema(MODULES.targetKinds))}\n`,
    "tools/test.schema.json": `${JSON.stringify(fixturesSchema())}\n`,
    "keys/.gitignore": "*\n",
    ".gitignore": "node_modules/\nkeys/\nvar/\n*.token\n",
    "package.json": packageJson(name),
    "tsconfig.json": `${JSON.stringify(TSCONFIG, null, 2)}\n`,
    "README.md": readme(name),
  };
}

/** Returns a name that package managers accept. */
function packageName(name: string): string {
  return (
    name
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, "-")
      .replace(/^-|-$/g, "")
      .slice(0, 100) || "tools"
  );
}

/** A clone is linked (`bun link`); a package and a binary have a published version. */
function packageSpecifier(): string {
  return isClone() ? "link:safe-tool-call" : VERSION;
}

function packageJson(name: string): string {
  const written = {
    name: packageName(name),
    private: true,
    type: "module",
    scripts: {
      serve: "stc serve --config stc.yaml",
      check: "stc check --config stc.yaml",
      // Without `bun test`: a project whose `stc` npm installed has no command `bun`.
      test: "stc test --config stc.yaml",
      "test:code": "bun test",
    },
    dependencies: { "safe-tool-call": packageSpecifier(), zod: zodPackage.version },
    devDependencies: { "bun-types": Bun.version },
  };
  return `${JSON.stringify(written, null, 2)}\n`;
}

const TSCONFIG = {
  compilerOptions: {
    target: "ESNext",
    module: "Preserve",
    moduleResolution: "bundler",
    lib: ["ESNext"],
    types: ["bun-types"],
    noEmit: true,
    strict: true,
    skipLibCheck: true,
    allowImportingTsExtensions: true,
    verbatimModuleSyntax: true,
  },
  include: ["tools", "tests"],
} as const;

function configurationFile({ agents, operators }: Issuers): string {
  return `# yaml-language-server: $schema=stc.schema.json
# Paths start at this file. \`stc check --config stc.yaml\` lists every problem; docs/configuration.md has every setting.
tools: [./tools]                        # every *.ts and *.tool.yaml below it
audit: { dir: ./var/audit }             # one entry for each call, also for refused ones; signed with var/audit.key
approvals: { store: "sqlite://./var/approvals.sqlite" }
reload: { trigger: watch }              # changed files are loaded while the service runs

jwt:
  issuers:                              # keys of this machine, for \`stc token --keys keys\`; in production, your identity provider
    - { issuer: "${agents.issuer}", jwksFile: keys/issuers/agents/jwks.json }
    - issuer: "${operators.issuer}"
      audience: ${operators.audience}
      operators: true                   # for people who approve calls
      jwksFile: keys/issuers/operators/jwks.json

systems:
  this-service:                         # an HTTP API: the service itself, until you name your own
    http: { baseUrl: "http://127.0.0.1:8787", plaintext: true, addresses: [loopback] }
`;
}

/** Returns an import of a written file. Spelled out, it would count as one of this file. */
function imported(names: string, module: string): string {
  return `import { ${names} } from ${JSON.stringify(module)};`;
}

const FUNCTION_TOOLS = `${imported("defineTool", "safe-tool-call")}
${imported("z", "zod")}

const NOTES = [
  { title: "Tea", text: "Green tea at 80 degrees, black tea at 96.", author: "ada@example.com" },
  { title: "Coffee", text: "18 g for a double espresso. No tea.", author: "alan@example.com" },
];

export function notesWith(word: string) {
  return NOTES.filter(({ title, text }) => \`\${title} \${text}\`.toLowerCase().includes(word.toLowerCase()));
}

export const searchNotes = defineTool({
  name: "search_notes",
  description: "Search the team's notes by a word",
  classification: "read",
  permissions: { required: ["notes:read"] },
  input: z.strictObject({ word: z.string().min(2).max(40) }),
  handler: async ({ word }) => ({ notes: notesWith(word) }),
  output: z.strictObject({ notes: z.array(z.object({ title: z.string(), text: z.string(), author: z.string() })) }),
  outputPolicy: {                         // fields without a line are left out of every answer
    "notes[].title": "allow",
    "notes[].text": "allow",
    "notes[].author": "mask",
  },
  examples: { accepts: [{ word: "tea" }], rejects: [{ word: "" }] },
});

export const addNote = defineTool({
  name: "add_note",
  description: "Add a note for the team",
  classification: "write",                // write and destructive ask a person first
  category: "write",
  permissions: { required: ["notes:write"] },
  input: z.strictObject({ title: z.string().min(1).max(80), text: z.string().max(2000) }),
  handler: async ({ title, text }) => {
    NOTES.push({ title, text, author: "agent" });
    return { notes: NOTES.length };
  },
  output: z.strictObject({ notes: z.int() }),
  outputPolicy: { notes: "allow" },
  examples: { accepts: [{ title: "Mate", text: "70 degrees." }], rejects: [{ title: "", text: "" }] },
});
`;

const SEARCH_FIXTURES = `# yaml-language-server: $schema=test.schema.json
tool: search_notes

calls:
  - name: a word
    args: { word: tea }
    verdict: allow
  - name: a letter is too short
    args: { word: t }
    refused: { code: INVALID_INPUT, field: word }

answers:
  - name: the author is masked
    answer: { notes: [{ title: Tea, text: Green tea at 80 degrees., author: ada@example.com }] }
    released: { notes: [{ title: Tea, text: Green tea at 80 degrees., author: "a**@e******.com" }] }
    masked: ["notes[].author"]
`;

const ADD_FIXTURES = `# yaml-language-server: $schema=test.schema.json
tool: add_note

calls:
  - name: a person is asked
    args: { title: Mate, text: 70 degrees. }
    verdict: ask
`;

const DATA_TOOL = `# yaml-language-server: $schema=tool.schema.json
name: get_health
description: Get whether the service is alive
classification: read
permissions: { required: ["health:read"] }

target:
  system: this-service
  http: { method: GET, path: /healthz }

input: { type: object, properties: {} }

output:
  type: object
  properties: { status: { type: string } }
  required: [status]

outputPolicy:
  status: allow
`;

const TEST = `${imported("expect, test", "bun:test")}
${imported("notesWith, searchNotes", "../tools/notes.ts")}

test("finds notes by their title and text, in upper and lower case", () => {
  expect(notesWith("TEA").map(({ title }) => title)).toEqual(["Tea", "Coffee"]);
  expect(notesWith("cocoa")).toEqual([]);
});

test("takes one word and nothing else", () => {
  expect(searchNotes.input.safeParse({ word: "tea" }).success).toBe(true);
  expect(searchNotes.input.safeParse({ word: "tea", all: true }).success).toBe(false);
});
`;

function readme(name: string): string {
  return `# ${packageName(name)}

Tools for LLM agents, served by Safe Tool Call. \`stc.yaml\` is the configuration, \`tools/\` has the tools, \`tests/\` their tests.

\`\`\`sh
stc serve --config stc.yaml
\`\`\`

\`\`\`sh
${AGENT_TOKEN}
${SEARCH}
\`\`\`

A change waits for a person. Be that person, then make the same call again:

\`\`\`sh
${ADD}
${OPERATOR_TOKEN}
${APPROVE}
\`\`\`

Every call is in the signed audit: \`${PUBLIC_KEY}\`, then \`${VERIFY}\`.

\`npm install\` lets editors check types. \`npm test\` runs the fixtures, and \`npm run test:code\` the tests, for which Bun must be installed. \`stc token --keys keys\` makes missing keys.
`;
}
