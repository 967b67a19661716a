import { basename, isAbsolute } from "node:path";
import { z } from "zod";
import { type ApproverPolicy, requiredOf } from "../../approvals/approver-policies/approver-policy.ts";
import { boundInWords } from "../../approvals/grants.ts";
import type { Inventory, SystemShown, SystemsShown, ToolDetails, ToolSummary } from "../../core/api/inventory.ts";
import type { Fault } from "../../core/errors.ts";
import type { RegisteredTool } from "../../core/evidence.ts";
import { isTable } from "../../core/json.ts";
import { classificationNotes } from "../../core/manifest/change-words.ts";
import { policyNotes } from "../../core/output-policy/notes.ts";
import { conditionsHold } from "../../core/rule-conditions.ts";
import type { CertificateExpiry } from "../../core/target-kind.ts";
import { inputJsonSchema } from "../../core/tool-formats.ts";
import type { EpochMs, Json, OfferedGrants, Tool } from "../../core/types.ts";
import { labelOf } from "../../detection/labels.ts";
import type { Parts } from "../composition/assembly.ts";
import { statesShown } from "../composition/decision-points.ts";
import { inForce, resolveBindings } from "../composition/roles.ts";
import type { Config } from "../config/config.ts";
import type { ConfigurationState } from "../reload/types.ts";
import { type AccessRow, accessRows, callersOf } from "./access.ts";
import { shownConfig, shownRequest, shownText, shownValue } from "./shown.ts";

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
      liveKeys: parts.liveKeys,
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
      policies: config.approvals.policies.filter(({ when }) => conditionsHold(when, { tool })).map(policyShown),
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

function policyShown(policy: ApproverPolicy): ToolDetails["approval"]["policies"][number] {
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

function outputJsonSchema(schema: z.ZodType): Readonly<Record<string, Json>> {
  const { $schema: _, ...shape } = z.toJSONSchema(schema, { io: "output", unrepresentable: "any", cycles: "ref" });
  return JSON.parse(JSON.stringify(shape)) as Readonly<Record<string, Json>>;
}

function rulesOf(policy: Tool["outputPolicy"]): ToolDetails["outputPolicy"] {
  return Object.entries(policy).map(([field, rule]) =>
    typeof rule === "string" ? { field, action: rule } : { field, ...rule },
  );
}

async function systemsOf(
  config: Config,
  { targets, registry, report, identity, points }: Parts,
): Promise<Omit<SystemsShown, "audit" | "listeners" | "reasons">> {
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

function stateOf<State>(value: unknown): State | undefined {
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

/** Returns the settings of an entry under `systems`: kinds keep them in the entry, or in its only member besides `own`. */
function settingsOf(entry: unknown): Readonly<Record<string, unknown>> {
  if (!isTable(entry)) return {};
  const { own: _, ...settings } = entry;
  const [only, another] = Object.values(settings);
  return another === undefined && isTable(only) ? only : entry;
}
