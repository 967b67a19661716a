import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { AskingService, type Loose } from "../support/asking-service.ts";
import { RunningStc, runStc } from "../support/stc.ts";
import { until } from "../support/until.ts";

/** One call of a tool, and what its result must show to be of use. */
export type FleetCall = readonly [tool: string, args: Loose, useful: RegExp];

/** A server of others, what its author does to govern it, and calls with real arguments. */
export interface FleetServer {
  readonly name: string;
  readonly kind: "mcp" | "openapi";
  /** Entry of `systems.<name>.<mcp or http>`. */
  readonly entry: Readonly<Record<string, unknown>>;
  /** Further arguments of `stc import`, in addition to those that every author writes. */
  readonly words?: readonly string[];
  /** Edits of manifests: a text, and what replaces it. */
  readonly edits?: readonly (readonly [tool: string, find: string, replacement: string])[];
  /** Tools whose policy `stc learn --describe --apply` writes, from the calls with their name. */
  readonly learn?: readonly string[];
  /** Tools of which the author allows what the proposal does not decide. */
  readonly allow?: readonly string[];
  readonly calls: readonly FleetCall[];
  /** Texts that no result may contain. */
  readonly hidden?: RegExp;
}

export interface Measured {
  readonly name: string;
  /** Tools or chosen operations of the server, those with a manifest, those that load, and those that were called. */
  readonly offered: number;
  readonly imported: number;
  readonly loaded: number;
  readonly called: number;
  /** Tools whose calls returned what they must show, and nothing that must be hidden. */
  readonly useful: number;
  /** Commands and edits of the author's. */
  readonly steps: number;
  readonly problems: readonly string[];
}

interface ImportedRow {
  readonly tool: string;
  readonly file: string | null;
  readonly problem: string;
}

const ANSWERS_TO_LEARN = 4;

/** A service with the tools of one server, governed by nothing but the commands of the product. */
export class FleetWorld extends AskingService {
  readonly #server: FleetServer;
  readonly #tools = join(this.folder, "tools");
  readonly #file = join(this.folder, "stc.yaml");

  constructor(server: FleetServer) {
    super();
    this.#server = server;
  }

  async measure(): Promise<Measured> {
    const { name, edits = [], learn = [], allow = [], calls } = this.#server;
    const problems: string[] = [];
    const rows = await this.#import(problems);
    for (const [tool, find, replacement] of edits) this.#edit(tool, find, replacement);
    const { out, err } = await runStc(["check", "--config", this.#file]);
    const loaded = Number(/^ok: (\d+) tools?/.exec(out)?.[1] ?? 0);
    if (loaded === 0) problems.push(out + err);
    await this.#start();
    if (learn.length > 0 || allow.length > 0) {
      for (const [tool, args] of calls) await this.#call(tool, args);
      for (const tool of learn) await this.#learn(tool, problems);
      for (const tool of allow) this.#allow(tool);
      await this.stop();
      await this.#start();
    }
    const failed = new Set<string>();
    for (const [tool, args, useful] of calls) {
      const problem = problemOf(await this.#call(tool, args), useful, this.#server.hidden);
      if (problem === undefined) continue;
      failed.add(tool);
      problems.push(`${tool}: ${problem}`);
    }
    const called = new Set(calls.map(([tool]) => tool)).size;
    const imported = rows.filter(({ file }) => file !== null).length;
    return {
      ...{ name, offered: rows.length, imported, loaded, called, useful: called - failed.size },
      ...{ steps: 2 + edits.length + learn.length + allow.length, problems },
    };
  }

  async #import(problems: string[]): Promise<readonly ImportedRow[]> {
    const { name, kind, words = [] } = this.#server;
    mkdirSync(this.#tools);
    writeFileSync(join(this.folder, "token"), "a-token");
    const own = { audit: { dir: "audit" }, jwt: { issuers: this.issuers.profiles() } };
    writeFileSync(this.#file, stringify({ ...this.#sections(), ...own }));
    const common = ["--accept", "--config", this.#file, "--out", this.#tools, "--json"];
    const { out, err } = await runStc(["import", kind, name, ...words, ...common]);
    if (err !== "") problems.push(err);
    const read = out === "" ? {} : JSON.parse(out);
    const rows: readonly Loose[] = read.results ?? [];
    return rows.map(({ name, tool, file, problem }) => {
      if (file === null) problems.push(`${name ?? tool}: ${problem}`);
      return { tool: name ?? tool, file, problem };
    });
  }

  #sections() {
    const { name, kind, entry } = this.#server;
    return {
      tools: ["tools"],
      systems: { [name]: { [kind === "mcp" ? "mcp" : "http"]: entry } },
      commands: { confinement: "prefer", launchers: 0 },
      approvals: { store: "sqlite://./approvals.sqlite", mode: "yolo" },
    };
  }

  #start(): Promise<void> {
    return this.run(this.#sections(), process.env["PATH"]);
  }

  #edit(tool: string, find: string, replacement: string): void {
    const path = join(this.#tools, `${tool}.tool.yaml`);
    const text = readFileSync(path, "utf8");
    if (!text.includes(find)) throw new Error(`${path} does not contain ${find}`);
    writeFileSync(path, text.replace(find, replacement));
  }

  #allow(tool: string): void {
    const path = join(this.#tools, `${tool}.tool.yaml`);
    const text = readFileSync(path, "utf8");
    const at = text.indexOf("\noutputPolicy:");
    const policy = text
      .slice(at)
      .replace("outputPolicy: {}", "outputPolicy:")
      .replace(/^ {2}# (?=.*: allow)/gm, "  ");
    writeFileSync(path, text.slice(0, at) + policy);
  }

  async #learn(tool: string, problems: string[]): Promise<void> {
    const token = join(this.folder, "operator.token");
    writeFileSync(token, await this.person({ permissions: ["tools:learn"] }));
    const calls = this.#server.calls.filter(([name]) => name === tool);
    const words = ["learn", tool, "--describe", "--answers", String(ANSWERS_TO_LEARN)];
    const options = ["--for", "1m", "--apply", join(this.#tools, `${tool}.tool.yaml`)];
    const learning = new RunningStc([...words, ...options], { env: { STC_URL: this.url, STC_TOKEN_FILE: token } });
    await until("that it observes", () => learning.err.includes("observing") || undefined);
    for (let count = 0; count < ANSWERS_TO_LEARN; count += 1) {
      const [, args] = calls[count % calls.length] ?? [tool, {}];
      await this.#call(tool, args);
    }
    // A call that failed is not an answer.
    if (learning.child.exitCode === null) setTimeout(() => learning.child.kill("SIGINT"), 500);
    if ((await learning.child.exited) !== 0) problems.push(`${tool}: ${learning.err}`);
  }

  async #call(tool: string, args: Loose): Promise<Loose> {
    const { name } = this.#server;
    const permissions = ["read", "write", "delete"].map((verb) => `${name}:${verb}`);
    const token = await this.agent({ permissions });
    const { body } = await this.send("POST", "/call", { token, body: { tool, args } });
    if (body.status !== "pending") return body;
    const { id } = body.approval;
    await this.decide(id, "approve");
    return (await this.send("POST", "/call", { token, body: { tool, args, approval: { id } } })).body;
  }
}

const SHOWN_CHARACTERS = 1_200;

function problemOf(body: Loose, useful: RegExp, hidden: RegExp | undefined): string | undefined {
  if (body.status !== "success") return JSON.stringify(body.error ?? body).slice(0, SHOWN_CHARACTERS);
  const shown = JSON.stringify(body.result);
  if (hidden?.test(shown)) return `shows what must be hidden: ${shown.slice(0, SHOWN_CHARACTERS)}`;
  return useful.test(shown) ? undefined : `is of no use: ${shown.slice(0, SHOWN_CHARACTERS)}`;
}

/** Returns a table with one line for each server. */
export function tableOf(rows: readonly Measured[]): string {
  const heading = ["server", "offered", "imported", "loaded", "called", "useful", "steps"];
  const cells = rows.map((row) => [row.name, row.offered, row.imported, row.loaded, row.called, row.useful, row.steps]);
  return [heading, ...cells].map((line) => line.map((cell) => String(cell).padEnd(12)).join("")).join("\n");
}
