import { basename, isAbsolute } from "node:path";
import { z } from "zod";
import { type ApproverPolicy, mayConcern, requiredOf } from "../../approvals/approver-policies/approver-policy.ts";
import type { RequiredPolicy } from "../../approvals/approver-policies/requirement.ts";
import { boundInWords } from "../../approvals/grants.ts";
import type { Fault } from "../../core/errors.ts";
import type { RegisteredTool } from "../../core/evidence.ts";
import { isTable } from "../../core/json.ts";
import { classificationNotes } from "../../core/manifest/change-words.ts";
import { policyNotes } from "../../core/output-policy/notes.ts";
import type { CertificateExpiry, ContractState, Quarantine, SystemState } from "../../core/target-kind.ts";
import { inputJsonSchema } from "../../core/tool-formats.ts";
import type { EpochMs, FieldAction, Json, OfferedGrants, Tool } from "../../core/types.ts";
import { labelOf } from "../../detection/labels.ts";
import type { Parts } from "../composition/assembly.ts";
import { statesShown } from "../composition/decision-points.ts";
import { inForce, resolveBindings } from "../composition/roles.ts";
import type { Config } from "../config/config.ts";
import { LIVE_KEYS } from "../reload/fingerprints.ts";
import type { ConfigurationState } from "../reload/types.ts";
import { type AccessRow, accessRows, callersOf } from "./access.ts";
import { shownConfig, shownRequest, shownText, shownValue } from "./shown.ts";

/**
 * The parts of a service, for operators: its tools, the systems that they reach, and its configuration. Nothing here holds a
 * secret or the path of a file.
 */
export interface Inventory {
  tools(): ToolCatalog;
  /** Returns undefined when there is no tool of this name. */
  tool(name: string): ToolDetails | undefined;
  /** Asks the health services of systems that have one. */
  systems(): Promise<SystemsShown>;
  configuration(): ConfigurationShown;
}

/** Who may call a tool, according to the configuration. Permissions in tokens are known only to their issuers. */
export interface MatrixRow {
  readonly tool: string;
  readonly system: string;
  readonly classification: Tool["classification"];
  readonly category: Tool["category"];
  readonly permissions: readonly string[];
  readonly elevated: readonly string[];
  /**
   * Whether a call needs an approval: always, never, or depending on the mode and the grants of its session. Operator rules can
   * require further approvals.
   */
  readonly asks: "always" | "by mode" | "no";
  /**
   * Subjects that receive the permissions, not counting elevated ones, from `jwt.issuers[].subjectPermissions` and from roles bound
   * to them.
   */
  readonly subjects: readonly string[];
  /** Roles that are bound to a group or to claims and give all of the permissions, not counting elevated ones. */
  readonly roles: readonly string[];
}

export interface ToolSummary extends Omit<MatrixRow, "tool" | "subjects" | "roles"> {
  readonly name: string;
  readonly title: string;
  readonly version: string;
  readonly kind: string;
  /** Name of the manifest's file; undefined for a tool that an embedder passed as a value. */
  readonly source?: string | undefined;
  /** True when its system changed it, so that it is not called. */
  readonly isQuarantined: boolean;
}

export interface ToolCatalog {
  readonly tools: readonly ToolSummary[];
  /** Tools that were refused at load, with the reason. */
  readonly notRegistered: readonly string[];
}

interface PolicyShown extends RequiredPolicy {
  /** The lowest risk of calls to which it applies. */
  readonly risk: string;
  readonly reasonRequired: ApproverPolicy["reasonRequired"];
  readonly scopes: ApproverPolicy["scopes"];
  readonly decideBySeconds?: number | undefined;
  readonly executeBySeconds?: number | undefined;
}

export interface ToolDetails extends ToolSummary {
  readonly description: string;
  /** Hex SHA-256 over what identifies the tool in an approval. */
  readonly identity: string;
  readonly callers: {
    readonly subjects: readonly string[];
    readonly certificates: readonly string[];
    readonly roles: readonly string[];
  };
  readonly approval: {
    /** Whether the manifest has a function that decides it by the arguments. */
    readonly dependsOnArguments: boolean;
    readonly risk?: string | undefined;
    readonly scopes: readonly string[];
    /** The widest bounded grant, with the bounds of the arguments that may vary in words. */
    readonly grants?:
      | { readonly runs: number; readonly minutes: number; readonly arguments: Readonly<Record<string, string>> }
      | undefined;
    readonly message?: string | undefined;
    readonly isAnswered: boolean;
    readonly policies: readonly PolicyShown[];
  };
  readonly inputSchema: Json;
  readonly outputSchema: Json;
  readonly outputPolicy: readonly FieldRule[];
  readonly inputPolicy: readonly FieldRule[];
  readonly scan: Json;
  readonly timeoutMs: number;
  readonly limits: Tool["limits"];
  readonly idempotent: boolean;
  readonly additive: boolean;
  readonly cost?: number | undefined;
  readonly errors: Tool["errors"];
  /** The manifest's target, without functions. */
  readonly target: Json;
  readonly quarantine?: Quarantine | undefined;
  /** Notes of `stc check` about the tool. */
  readonly notes: readonly Fault[];
}

interface FieldRule {
  readonly field: string;
  readonly action: FieldAction;
  readonly reason?: string | undefined;
}

interface SystemShown extends SystemState {
  readonly name: string;
  readonly kind: string;
  /** As configured; of a program its name. */
  readonly addresses: readonly string[];
  /** `mutual`: also with a certificate of the service's own. */
  readonly tls: "none" | "server" | "mutual";
  readonly tools: readonly string[];
  readonly contract?: Omit<ContractState, "system"> | undefined;
}

interface SystemsShown {
  readonly systems: readonly SystemShown[];
  /** The service's own certificates for systems; `expiresAt` in ISO 8601. */
  readonly certificates: readonly { readonly system: string; readonly expiresAt: string }[];
  readonly notes: readonly string[];
  readonly confinement?: Json | undefined;
  readonly audit: Json;
  /** State of the revocation list; undefined when there is none. */
  readonly revocations?: Json | undefined;
  /** States of the decision points; undefined when there are none. */
  readonly decisionPoints?: Json | undefined;
}

interface ConfigurationShown {
  /** Undefined when the configuration has no source to read again. */
  readonly state?: ConfigurationState | undefined;
  /** Problems of the last refused reload; empty when it was not refused. */
  readonly problems: readonly string[];
  readonly values: Json;
  /** Keys that a reload changes, with everything below them. */
  readonly liveKeys: readonly string[];
}

interface InventoryParts {
  readonly config: Config;
  readonly parts: Parts;
  readonly state: ConfigurationState | undefined;
  readonly problems: readonly string[];
  readonly audit: object;
  readonly nowMs: EpochMs;
}

/** Returns the inventory of one configuration snapshot. */
export function inventoryOf({ config, parts, state, problems, audit, nowMs }: InventoryParts): Inventory {
  const { registry, loaded } = parts;
  const given = { config, parts, nowMs };
  return {
    tools: () => ({
      tools: registry.list().map(({ tool }) => summaryOf(tool, given)),
      notRegistered: loaded.notRegistered.map(shownText),
    }),
    tool(name) {
      const { registered } = registry.find(name);
      return registered && detailsOf(registered, given);
    },
    systems: async () => ({ ...(await systemsOf(config, parts)), audit: shownValue(audit) }),
    configuration: () => ({
      state,
      problems: problems.map((problem) => shownText(problem)),
      values: shownConfig(config, parts.targets.systemNames(config)),
      liveKeys: LIVE_KEYS,
    }),
  };
}

/** Returns who may call which tool, as far as the configuration says it. Bindings that have ended do not count. */
export function matrixOf(tools: readonly Tool[], config: Config, nowMs: EpochMs): readonly MatrixRow[] {
  const access = accessNow(tools, config, nowMs);
  const rows = tools.map((tool) => {
    const { subjects, roles } = callersOf(tool, access);
    return { ...rowOf(tool), subjects, roles };
  });
  return rows.sort((a, b) => (a.tool < b.tool ? -1 : 1));
}

function accessNow(tools: readonly Tool[], config: Config, nowMs: EpochMs): readonly AccessRow[] {
  return accessRows(config, tools, inForce(resolveBindings(config, tools), nowMs));
}

function rowOf({
  name,
  target,
  classification,
  category,
  permissions,
  approval,
}: Tool): Omit<MatrixRow, "subjects" | "roles"> {
  return {
    tool: name,
    system: target.system,
    classification,
    category,
    permissions: permissions.required,
    elevated: permissions.elevatedIf?.required ?? [],
    asks: approvalNeed({ classification, category, approval }),
  };
}

function approvalNeed({
  classification,
  category,
  approval,
}: Pick<Tool, "classification" | "category" | "approval">): MatrixRow["asks"] {
  if (classification === "destructive" || category === "ask" || approval.required === true) return "always";
  return category === "read" ? "no" : "by mode";
}

/** Returns what operators should know about the protection of a tool's arguments and answers. */
export function protectionNotes(tool: Tool): readonly Fault[] {
  const namesSecret = (name: string): boolean => labelOf(name).secret !== undefined;
  return [...classificationNotes(tool), ...policyNotes(tool, namesSecret)];
}

type Given = Pick<InventoryParts, "config" | "parts" | "nowMs">;

function summaryOf(tool: Tool, { parts: { loaded, targets } }: Given): ToolSummary {
  const { tool: name, ...row } = rowOf(tool);
  const file = loaded.origins.get(tool);
  return {
    name,
    title: tool.title,
    version: tool.version,
    ...row,
    kind: targets.kindOf(tool).name,
    source: file !== undefined && (isAbsolute(file) || file.startsWith("..")) ? basename(file) : file,
    isQuarantined: targets.quarantineOf(tool) !== undefined,
  };
}

function detailsOf({ tool, identity, binding }: RegisteredTool, given: Given): ToolDetails {
  const { config, parts, nowMs } = given;
  const { approval } = tool;
  const { system, ...target } = tool.target;
  const doubt = binding.classificationDoubt?.();
  const quarantine = parts.targets.quarantineOf(tool);
  // The quarantine is a member of its own.
  const ownNotes = parts.targets
    .report(parts.loaded.tools)
    .toolNotes.filter((note) => note.tool === tool.name && (quarantine === undefined || note.isQuarantine !== true));
  return {
    ...summaryOf(tool, given),
    description: tool.description,
    identity,
    callers: callersOf(tool, accessNow(parts.loaded.tools, config, nowMs)),
    approval: {
      dependsOnArguments: approval.needsApproval !== undefined,
      risk: approval.risk,
      scopes: approval.scopes ?? ["once", "session"],
      grants: binding.fixedParts === undefined ? undefined : approval.grants && grantsShown(approval.grants),
      message: approval.message === undefined ? undefined : shownText(approval.message),
      isAnswered: approval.answer !== undefined,
      policies: config.approvals.policies.filter((policy) => mayConcern(policy, tool)).map(policyShown),
    },
    inputSchema: inputJsonSchema(tool.input, "draft-2020-12"),
    outputSchema: outputJsonSchema(tool.output),
    outputPolicy: rulesOf(tool.outputPolicy),
    inputPolicy: rulesOf(tool.inputPolicy),
    scan: shownValue(tool.scan),
    timeoutMs: tool.timeoutMs,
    limits: tool.limits,
    errors: tool.errors,
    idempotent: tool.idempotent,
    additive: tool.additive,
    cost: tool.cost,
    target: parts.targets.kindOf(tool).describesRequest === true ? shownRequest(target) : shownValue(target),
    quarantine,
    notes: [
      ...[...protectionNotes(tool), ...ownNotes].map(({ field, message }) => ({ field, message: shownText(message) })),
      ...(doubt === undefined ? [] : [{ field: "classification", message: doubt }]),
    ],
  };
}

function grantsShown({ runs, minutes, arguments: bounds = {} }: OfferedGrants) {
  const words = Object.entries(bounds).map(([name, bound]) => [
    name,
    boundInWords(bound === "equal" ? undefined : bound),
  ]);
  return { runs, minutes, arguments: Object.fromEntries(words) as Readonly<Record<string, string>> };
}

function policyShown(policy: ApproverPolicy): PolicyShown {
  const { when, reasonRequired, scopes, decideBySeconds, executeBySeconds } = policy;
  return {
    ...requiredOf(policy),
    risk: when.risk ?? "low",
    reasonRequired,
    scopes,
    decideBySeconds,
    executeBySeconds,
  };
}

function outputJsonSchema(schema: z.ZodType): Json {
  const { $schema: _, ...shape } = z.toJSONSchema(schema, { io: "output", unrepresentable: "any", cycles: "ref" });
  return JSON.parse(JSON.stringify(shape)) as Json;
}

function rulesOf(policy: Tool["outputPolicy"]): readonly FieldRule[] {
  return Object.entries(policy).map(([field, rule]) =>
    typeof rule === "string" ? { field, action: rule } : { field, ...rule },
  );
}

async function systemsOf(
  config: Config,
  { targets, registry, report, identity, points }: Parts,
): Promise<Omit<SystemsShown, "audit">> {
  const status = new Map(Object.entries(await targets.status()));
  const tools = registry.list().map(({ tool }) => tool);
  const kinds = new Map<string, Set<string>>();
  const addKind = (name: string, kind: string): void => void kinds.set(name, (kinds.get(name) ?? new Set()).add(kind));
  for (const tool of tools) addKind(tool.target.system, targets.kindOf(tool).name);
  for (const [name, kind] of targets.systemNames(config)) addKind(name, kind);
  const { contracts } = report;
  return {
    systems: [...kinds].sort(byName).map(([name, ofKinds]) => {
      const contract = contracts.find(({ system }) => system === name);
      return {
        name,
        kind: [...ofKinds].sort().join(", "),
        ...connectionOf(config.systems[name]),
        ...status.get(name),
        tools: tools.filter(({ target }) => target.system === name).map((tool) => tool.name),
        contract: contract && { origin: contract.origin, sha256: contract.sha256, isPinned: contract.isPinned },
      };
    }),
    certificates: targets.certificates().map(expiryOf),
    notes: report.notes.map(shownText),
    confinement: stateOf(targets.confinement()),
    revocations: stateOf(identity.revocations?.state()),
    decisionPoints: stateOf(statesShown(points.states())),
  };
}

function stateOf(value: unknown): Json | undefined {
  return value === undefined ? undefined : shownValue(value);
}

function byName([one]: readonly [string, unknown], [other]: readonly [string, unknown]): number {
  return one < other ? -1 : 1;
}

function expiryOf({ system, notAfter }: CertificateExpiry) {
  return { system, expiresAt: new Date(notAfter).toISOString() };
}

/** Returns where a system is and whether TLS protects it, from the settings that systems of all kinds share. */
function connectionOf(entry: unknown): Pick<SystemShown, "addresses" | "tls"> {
  const settings = settingsOf(entry);
  const { baseUrl, url, endpoint, endpoints, command, tls } = settings;
  const addresses = [baseUrl, url, endpoint, endpoints].flat().filter((address) => typeof address === "string");
  const program = typeof command === "string" ? [basename(command)] : [];
  const isMutual = isTable(tls) && tls["clientCert"] !== undefined;
  const isTls = isTable(tls) || addresses.some((address) => address.startsWith("https://"));
  const shownAddresses = [...addresses.map((address) => String(shownValue(address))), ...program];
  const tlsShown = isTls ? "server" : "none";
  return { addresses: shownAddresses, tls: isMutual ? "mutual" : tlsShown };
}

/** Returns the settings of an entry under `systems`: kinds keep them in the entry, or in its only member. */
function settingsOf(entry: unknown): Readonly<Record<string, unknown>> {
  if (!isTable(entry)) return {};
  const [only, another] = Object.values(entry);
  return another === undefined && isTable(only) ? only : entry;
}
