import { errorText, systemCode } from "../../core/error-text.ts";
import { present } from "../../core/present.ts";
import type { ServerProcesses } from "../../core/server-process.ts";
import type { OpenedKind, ToolDraft, UpstreamEvent, UpstreamState } from "../../core/target-kind.ts";
import type { EpochMs } from "../../core/types.ts";
import { certificateNotes } from "../../egress/certificates.ts";
import type { RotatingClient } from "../../egress/rotating-client.ts";
import { bindTool, quarantineOf, toolNotes } from "./handler.ts";
import type { McpContext, McpParts, ServerEntries, ServerEntry } from "./settings.ts";
import { Upstream, type UpstreamOptions } from "./upstream.ts";

const SECOND_MS = 1_000;
/** Time after which the connections with former certificates are closed. */
const FORMER_CLIENT_MS = 300_000;

/** The servers in use, and what the kind does with them. */
export interface Servers
  extends Required<
    Pick<
      OpenedKind,
      "bind" | "report" | "status" | "upstreams" | "quarantineOf" | "certificates" | "watch" | "revoked" | "close"
    >
  > {
  has(system: string): boolean;
  /** Returns drafts of manifests for a server's tools; a text when they cannot be read. */
  drafts(system: string): Promise<readonly ToolDraft[] | string>;
}

/** Opens the servers and reads their definitions. Adds problems with their configuration to `context.problems`. */
export async function openServers(context: McpContext, parts: McpParts, entries: ServerEntries): Promise<Servers> {
  const { newId, now, config, onUpstream = () => {} } = context;
  const hasPrograms = [...entries.values()].some(({ mcp: { command } }) => command !== undefined);
  const { memoryBytesMax } = config.commands;
  const processes = hasPrograms ? await parts.processes({ memoryBytesMax, newId }) : undefined;
  const opening = { context, notes: [], clients: [] };
  const events = new Events(onUpstream);
  const forgets: (() => void)[] = [];
  const upstreams = new Map<string, Upstream>();
  for (const [name, { mcp: entry }] of entries) {
    const reached =
      processes !== undefined && entry.url === undefined
        ? await programChannel({ ...opening, name, entry }, processes)
        : await urlChannel({ ...opening, name, entry });
    if (reached === undefined) continue;
    const limits = {
      startTimeoutMs: entry.startSeconds * SECOND_MS,
      definitionsMs: entry.definitionsSeconds * SECOND_MS,
      sessionsMax: entry.sessionsMax,
      idleMs: entry.idleSeconds * SECOND_MS,
      concurrentCallsMax: entry.concurrentCallsMax,
    };
    const { forgetCallers = () => {}, ...how } = reached;
    const report = (event: UpstreamEvent): void => events.report(event);
    upstreams.set(name, new Upstream({ system: name, ...how, isShared: entry.stateless, limits, now, report }));
    forgets.push(forgetCallers);
  }
  const all = [...upstreams.values()];
  // A server that cannot be reached affects its own tools only: the start goes on, and `stc check` reports it.
  await Promise.allSettled(all.map((each) => each.readDefinitions(new AbortController().signal)));
  return serversOf(upstreams, { ...opening, processes, events, forgets, now });
}

interface Used extends Pick<Opening, "notes" | "clients"> {
  readonly processes: ServerProcesses | undefined;
  readonly events: Events;
  /** Drop the tokens that were obtained for callers. */
  readonly forgets: readonly (() => void)[];
  readonly now: () => EpochMs;
}

/** Passes events on: to the log, and once the service runs, to its journal. */
class Events {
  readonly #log: (event: UpstreamEvent) => void;
  #journal: ((event: UpstreamEvent) => void) | undefined;

  constructor(log: (event: UpstreamEvent) => void) {
    this.#log = log;
  }

  report(event: UpstreamEvent): void {
    this.#log(event);
    this.#journal?.(event);
  }

  /** Also reports what was quarantined before. */
  follow(journal: (event: UpstreamEvent) => void, upstreams: readonly Upstream[]): void {
    for (const event of upstreams.flatMap((upstream) => upstream.quarantines())) journal(event);
    this.#journal = journal;
  }
}

function serversOf(upstreams: ReadonlyMap<string, Upstream>, used: Used): Servers {
  const { notes, clients, processes, events, forgets, now } = used;
  const all = [...upstreams.values()];
  const certificates = () => clients.flatMap((client) => client.certificates());
  return {
    has: (system) => upstreams.has(system),
    bind: (tool) => bindTool(tool, upstreams),
    async drafts(system) {
      const upstream = upstreams.get(system);
      const { draftOf, unusableDraft } = await import("./drafts.ts");
      if (upstream?.listed === undefined) return upstream?.failure ?? "its server is not usable";
      const { definitions, unusable } = upstream.listed;
      return [
        ...[...definitions.values()].map(draftOf),
        ...[...unusable].map(([name, reason]) => unusableDraft(name, reason)),
      ];
    },
    report(tools) {
      const failures = all.flatMap(({ system, failure }) =>
        failure === undefined ? [] : [`systems.${system}: its MCP server cannot be used now: ${failure}`],
      );
      const expiring = certificateNotes(certificates(), now());
      return { notes: [...notes, ...failures, ...expiring], toolNotes: toolNotes(tools, upstreams) };
    },
    async status() {
      const rows = stateOf(all).map(({ system, ...state }) => {
        const upstream = upstreams.get(system);
        return [system, { ...state, ...(upstream !== undefined && { calls: upstream.calls }) }] as const;
      });
      return Object.fromEntries(rows);
    },
    upstreams: () => stateOf(all),
    quarantineOf: (tool) => quarantineOf(tool, upstreams),
    certificates,
    watch(options) {
      for (const client of clients) client.watch(options);
      if (options.upstream !== undefined) events.follow(options.upstream, all);
    },
    revoked() {
      for (const forget of forgets) forget();
      for (const upstream of all) upstream.endOwned();
    },
    async close() {
      // Together: the end of its process also ends a session that is starting.
      await Promise.all([...all.map((upstream) => upstream.close()), processes?.close()]);
      for (const client of clients) client.close();
    },
  };
}

function stateOf(upstreams: readonly Upstream[]): readonly UpstreamState[] {
  return upstreams.map((upstream) => {
    const { system, state, sessions } = upstream;
    return { system, state, sessions, quarantined: upstream.quarantines().flatMap(({ tool = [] }) => tool) };
  });
}

/** One server while it is opened. */
interface Opening {
  readonly context: McpContext;
  readonly name: string;
  readonly entry: ServerEntry;
  /** Notes for operators about the servers' processes. */
  readonly notes: string[];
  /** Clients of the servers that are reached at a URL. */
  readonly clients: RotatingClient[];
}

/** The connections to a server, and its identity. */
interface Reached extends Pick<UpstreamOptions, "open" | "identity" | "additions" | "confinement" | "credentialKeyOf"> {
  readonly forgetCallers?: () => void;
}

/** Returns undefined after adding a problem. */
async function programChannel(
  { context, name, entry, notes }: Opening,
  processes: ServerProcesses,
): Promise<Reached | undefined> {
  const { problems, config, ownPaths } = context;
  const field = `systems.${name}.mcp`;
  const { args, reads, writes, network, messageBytesMax } = entry;
  const command = processes.find(present(entry.command, "the command of the entry"), config.searchPath);
  if (command === undefined) {
    problems.push(`${field}.command: no program ${entry.command} was found`);
    return undefined;
  }
  const secretEnv = (): Readonly<Record<string, string>> => secretsOf(entry, context);
  try {
    secretEnv();
  } catch (error) {
    problems.push(`${field}.secretEnv: a valueFile cannot be read (${systemCode(error)})`);
    return undefined;
  }
  const program = { command, argv: args, environment: {}, reads, writes, network: network ?? null };
  const overlaps = processes.overlapping(program, ownPaths);
  for (const own of overlaps) {
    problems.push(`${field}: its program may use ${own.field}: ${own.path}, which belongs to the service`);
  }
  if (overlaps.length > 0) return undefined;
  const { confinement } = config.commands;
  const unconfined = confinement === "off" ? "commands.confinement is off" : await processes.problem(program);
  if (unconfined !== undefined && confinement === "require") {
    problems.push(
      `${field}: its program cannot be confined: ${unconfined}; commands.confinement: prefer lets it run unconfined`,
    );
    return undefined;
  }
  if (unconfined !== undefined) notes.push(`systems.${name}: its program runs unconfined (${unconfined})`);
  const { stdioChannel } = await import("./stdio.ts");
  const start: Parameters<typeof stdioChannel>[0]["start"] = (environment, output) =>
    processes.start({ ...program, environment }, unconfined === undefined, output);
  const identity = { address: { command: present(entry.command, "the command of the entry"), args }, tls: null };
  return {
    open: stdioChannel({
      installedIn: () => processes.installedIn(command),
      start,
      env: entry.env,
      secretEnv,
      messageBytesMax,
    }),
    identity,
    additions: { secretEnv: entry.secretEnv.map(({ name: variable }) => variable) },
    confinement: unconfined === undefined ? "confined" : "none",
  };
}

/** Returns undefined after adding a problem. */
async function urlChannel({ context, name, entry, clients }: Opening): Promise<Reached | undefined> {
  const { problems } = context;
  const field = `systems.${name}.mcp`;
  const [{ RotatingClient }, { readUrlSystem }, { readSigner }, { httpChannel }] = await Promise.all([
    import("../../egress/rotating-client.ts"),
    import("../../egress/settings.ts"),
    import("../../egress/assertion.ts"),
    import("./http.ts"),
  ]);
  const known = problems.length;
  const reached = await readUrlSystem(context, field, { ...entry, url: present(entry.url, "the URL of the entry") });
  const sign = entry.assertion ? readSigner(context) : undefined;
  if (reached === undefined || problems.length > known) return undefined;
  const { credentials, ...settings } = reached;
  const { url, tls } = settings;
  let client: RotatingClient;
  try {
    client = new RotatingClient({ system: name, ...settings, formerMs: FORMER_CLIENT_MS });
  } catch (error) {
    problems.push(`${field}: ${errorText(error)}`);
    return undefined;
  }
  clients.push(client);
  const { serverName = url.hostname, rootCert } = entry.tls ?? {};
  const roots = rootCert === undefined ? "platform" : "configured";
  const identity = { address: { url: url.href }, tls: tls === undefined ? null : { serverName, roots } };
  const { messageBytesMax, auth } = entry;
  const addedHeaders = [
    ...Object.keys(auth ?? {}).flatMap((kind) =>
      kind === "header" ? [] : [`${auth?.header ?? "authorization"} (${kind})`],
    ),
    ...(sign === undefined ? [] : ["x-caller-assertion"]),
  ];
  return {
    additions: { addedHeaders },
    open: httpChannel({
      system: name,
      url,
      client: () => client.current.client,
      credentials,
      sign,
      messageBytesMax,
      now: context.now,
    }),
    identity,
    credentialKeyOf: credentials?.keyOf,
    forgetCallers: () => credentials?.forgetCallers?.(),
  };
}

function secretsOf({ secretEnv }: ServerEntry, { readFile }: McpContext): Readonly<Record<string, string>> {
  const read = (file: string): string =>
    readFile(file)
      .toString("utf8")
      .replace(/[\r\n]+$/, "");
  return Object.fromEntries(secretEnv.map(({ name, valueFile }) => [name, read(valueFile)]));
}
