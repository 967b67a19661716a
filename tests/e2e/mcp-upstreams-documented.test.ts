import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parse } from "yaml";
import { AskingService, type Loose, type Reply } from "../support/asking-service.ts";
import { assemble, readConfig } from "../support/build.ts";
import { blockNamed, blocksOf } from "../support/documented.ts";
import { PROJECT } from "../support/world.ts";

const PAGE = "docs/mcp-upstreams.md";
const NODE = Bun.which("node");

/** The service of the guide, with its server and its manifests. */
class NotesService extends AskingService {
  readonly notes = join(realpathSync(this.folder), "notes");

  written(text: string): string {
    return text.replaceAll("/opt/mcp/node_modules", join(PROJECT, "node_modules")).replaceAll("/srv/notes", this.notes);
  }

  prepare(pins: Readonly<Record<string, string>> = {}): void {
    const manifest = blockNamed(`${PAGE}: import { defineTool`).text;
    const pattern = this.notes.replaceAll("/", String.raw`\/`);
    const placed = manifest.replace(String.raw`\/srv\/notes`, pattern);
    const pinned = placed.replace(/mcpTool\("notes", "(\w+)"\)/g, (text, tool) =>
      pins[tool] === undefined ? text : `mcpTool("notes", "${tool}", { definitionSha256: "${pins[tool]}" })`,
    );
    mkdirSync(join(this.folder, "tools"), { recursive: true });
    mkdirSync(this.notes, { recursive: true });
    writeFileSync(join(this.folder, "tools/notes.ts"), pinned);
  }

  get sections(): Loose {
    const block = blocksOf(PAGE).find(({ text }) => text.includes("server-filesystem/dist"));
    const written = parse(this.written(block?.text ?? ""));
    return { ...written, tools: ["tools"], approvals: { store: "sqlite://./approvals.sqlite" } };
  }

  get path(): string {
    return dirname(NODE ?? "/");
  }

  async start(): Promise<void> {
    await this.run({ ...this.sections, commands: { launchers: 0 } }, this.path);
  }

  /** The notes of `stc check`. */
  async check(): Promise<readonly string[]> {
    const written = { ...this.sections, audit: { dir: "checked" }, jwt: { issuers: this.issuers.profiles() } };
    const environment = { PATH: this.path };
    const parts = await assemble(readConfig(written, { folder: this.folder, environment, origin: "test" }));
    await parts.close();
    return parts.report.toolNotes.map(({ tool, field, message }) => `tool ${tool}: ${field}: ${message}`);
  }

  async call(tool: string, args: Loose, approval?: string): Promise<Reply> {
    const token = await this.agent({ permissions: ["notes:read", "notes:write"] });
    const body = { tool, args, ...(approval !== undefined && { approval: { id: approval } }) };
    return this.send("POST", "/call", { token, body });
  }
}

describe.skipIf(NODE === null)("the guide to MCP servers", () => {
  const service = new NotesService();
  afterAll(() => service.end());

  test("stc check shows the hashes, and with them nothing is left to pin", async () => {
    service.prepare();
    const notes = await service.check();
    const hashOf = (tool: string): string => {
      const note = notes.find((each) =>
        each.startsWith(`tool ${tool}: target.mcp: is not pinned: set definitionSha256: `),
      );
      return /"([0-9a-f]{64})"/.exec(note ?? "")?.[1] ?? "";
    };
    const pins = { read_text_file: hashOf("read_note"), write_file: hashOf("write_note") };
    expect(Object.values(pins).every((pin) => pin.length === 64)).toBe(true);
    service.prepare(pins);
    expect((await service.check()).filter((note) => note.includes("target.mcp"))).toEqual([]);
  });

  test("reading runs freely, and writing only after an approval", async () => {
    await service.start();
    const path = join(service.notes, "plan.md");
    const asked = await service.call("write_note", { path, content: "Buy bread" });
    expect([asked.http, asked.body.status]).toEqual([202, "pending"]);
    const { id } = asked.body.approval;
    expect((await service.decide(id, "approve")).http).toBe(200);
    const written = await service.call("write_note", { path, content: "Buy bread" }, id);
    expect(written.http).toBe(200);
    expect(readFileSync(path, "utf8")).toBe("Buy bread");
    const read = await service.call("read_note", { path });
    expect(read.body.result).toEqual({ content: "Buy bread" });
    const elsewhere = await service.call("read_note", { path: "/etc/passwd" });
    expect(elsewhere.body.error.code).toBe("INVALID_INPUT");
  });
});
