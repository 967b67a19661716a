import { type AdoptedConfiguration, ConfigurationHistory } from "../../audit/configurations.ts";
import type { ConfigurationHistoryRead, ConfigurationVersion } from "../../core/api/configuration-versions.ts";
import { sha256Hex } from "../../core/digest.ts";
import { isTable } from "../../core/json.ts";
import { changesBetween } from "../../core/json-changes.ts";
import type { Json } from "../../core/types.ts";
import type { Config } from "../config/config.ts";
import { shownConfig } from "../inventory/shown.ts";
import type { Parts } from "./assembly.ts";
import type { Capabilities, Hooks } from "./hooks.ts";
import { instanceOf, logDirOf } from "./instance.ts";

const DAY_MS = 86_400_000;
const CHANGES_MAX = 32;
const CHANGE_CHARACTERS_MAX = 200;
const DIFFERENCES_MAX = 500;

interface Adoptable {
  readonly config: Config;
  readonly parts: Pick<Parts, "targets" | "registry">;
  readonly version: string;
}

/** What a journal line says of the configuration that is adopted. */
interface JournaledConfiguration {
  readonly [member: string]: Json;
  readonly policyVersion: string;
  readonly shownSha256: string;
}

/** The text of each configuration that was in use, and what it changed, for operators. */
export interface ConfigurationVersionsKept extends ConfigurationHistoryRead {
  /** Stores the text of a configuration, and returns what its journal line says of it. Never rejects. */
  prepare(snapshot: Adoptable): Promise<JournaledConfiguration>;
  /** Notes that a configuration is in use. Never rejects. */
  adopt(snapshot: Adoptable, by: string): Promise<void>;
}

type HistoryHooks = Pick<Capabilities, "clock"> & Pick<Hooks, "logError">;

export function keepConfigurations(config: Config, { clock, logError }: HistoryHooks): ConfigurationVersionsKept {
  const { retentionDays } = config.audit;
  const keepMs = retentionDays === undefined ? undefined : retentionDays * DAY_MS;
  const history = new ConfigurationHistory({ dir: logDirOf(config), clock, keepMs });
  const instance = instanceOf(config);
  const report = (cause: unknown): void => logError?.("the history of the configuration could not be written", cause);
  return {
    async prepare({ version: policyVersion, ...snapshot }) {
      const text = textOf(snapshot);
      await history.keep(text).catch(report);
      return { policyVersion, shownSha256: sha256Hex(text) };
    },
    async adopt({ version: policyVersion, ...snapshot }, by) {
      try {
        const text = textOf(snapshot);
        const [before] = history.versions();
        const changes = differences(before && history.textOf(before.shownSha256), text).map(({ path }) =>
          path.slice(0, CHANGE_CHARACTERS_MAX),
        );
        await history.adopt({
          policyVersion,
          shownSha256: await history.keep(text),
          by,
          changes: changes.slice(0, CHANGES_MAX),
          moreChanges: Math.max(0, changes.length - CHANGES_MAX),
        });
      } catch (cause) {
        report(cause);
      }
    },
    list() {
      const versions = history.versions();
      return { instance, inUse: versions[0]?.policyVersion ?? "", versions };
    },
    version(policyVersion, against) {
      const all = history.versions();
      const at = all.findIndex((each) => each.policyVersion === policyVersion);
      const found = all[at];
      // A setting that decides no call may have changed within a version.
      const other =
        against === undefined
          ? all.slice(at + 1).find((each) => each.policyVersion !== policyVersion)
          : all.find((each) => each.policyVersion === against);
      if (found === undefined || (against !== undefined && other === undefined)) return undefined;
      return shownVersion(history, found, other, instance);
    },
  };
}

function shownVersion(
  history: ConfigurationHistory,
  found: AdoptedConfiguration,
  other: AdoptedConfiguration | undefined,
  instance: string,
): ConfigurationVersion | undefined {
  const text = history.textOf(found.shownSha256);
  if (text === undefined) return undefined;
  const before = other && history.textOf(other.shownSha256);
  const all = differences(before, text);
  const { values, tools } = JSON.parse(text) as Pick<ConfigurationVersion, "values" | "tools">;
  return {
    ...found,
    instance,
    comparedWith: before === undefined ? null : (other?.policyVersion ?? null),
    differences: all.slice(0, DIFFERENCES_MAX),
    moreDifferences: Math.max(0, all.length - DIFFERENCES_MAX),
    values,
    tools,
  };
}

/** Returns no difference when there is nothing to compare with. */
function differences(before: string | undefined, after: string): ReturnType<typeof changesBetween> {
  if (before === undefined) return [];
  return changesBetween(partsOf(before), partsOf(after));
}

/** Returns the parts of a text: its sections, and each tool under its name. */
function partsOf(text: string): unknown {
  const parsed: unknown = JSON.parse(text);
  const { values, tools } = isTable(parsed) ? parsed : {};
  const { tools: _, ...sections } = isTable(values) ? values : {};
  const named = Array.isArray(tools) ? tools.filter(isTable) : [];
  return { ...sections, tools: Object.fromEntries(named.map(({ name, identity }) => [String(name), identity])) };
}

function textOf({ config, parts: { targets, registry } }: Omit<Adoptable, "version">): string {
  const tools = registry.list().map(({ tool, identity }) => ({ name: tool.name, identity }));
  const values = shownConfig(config, targets.systemNames(config));
  return `${JSON.stringify({ values, tools: tools.sort((one, other) => (one.name < other.name ? -1 : 1)) }, null, 1)}\n`;
}
