import type { VNode } from "preact";
import type {
  AdoptedVersion,
  ConfigurationVersion,
  ConfigurationVersions,
} from "../../../core/api/configuration-versions.ts";
import { POLICY, VERSIONS, versionHref } from "../meanings.tsx";
import { Badge, Facts, Heading, localTime } from "../parts.tsx";
import { codeRow, jsonLines, Section, Unread, useRead } from "../records.tsx";
import { hrefOf } from "../route.ts";
import { Block, Text } from "../text.tsx";
import { counted } from "../words.ts";
import { Settings } from "./settings.tsx";

/** The history of the configuration: which version was in use since when, who loaded it, and what it changed. */

const SHOWN = 12;

/** The newest versions, or all of them. */
export function History({ max }: { readonly max?: number }): VNode {
  const { read, again } = useRead<ConfigurationVersions>("/configuration/versions");
  const { value } = read;
  if (value === undefined)
    return (
      <Section id="history" title="History">
        <Unread read={read} again={again} />
      </Section>
    );
  const { instance, versions } = value;
  const shown = versions.slice(0, max);
  return (
    <Section id="history" title="History">
      <p class="help">
        As the replica <Text value={instance} max={80} /> has used them, newest first.
      </p>
      {versions.length === 0 && <p class="dim">No version was recorded yet.</p>}
      <ol class="versions">
        {shown.map((version, at) => (
          <Version
            key={`${version.policyVersion} ${version.since}`}
            version={version}
            isInUse={at === 0}
            isFirst={at === versions.length - 1}
          />
        ))}
      </ol>
      {shown.length < versions.length && (
        <a href={hrefOf(POLICY, [VERSIONS])}>All {counted(versions.length, "version")}</a>
      )}
    </Section>
  );
}

interface VersionProps {
  readonly version: AdoptedVersion;
  readonly isInUse: boolean;
  /** Whether the history has no earlier version. */
  readonly isFirst: boolean;
}

function Version({ version, isInUse, isFirst }: VersionProps): VNode {
  const { policyVersion, since, by, changes, moreChanges } = version;
  return (
    <li>
      <p>
        <a href={versionHref(policyVersion)}>
          <code>{policyVersion.slice(0, SHOWN)}</code>
        </a>{" "}
        {isInUse && <Badge tone="good">in use</Badge>}
      </p>
      <p class="meta">
        since <time dateTime={since}>{localTime(since)}</time>, <Loaded by={by} />
      </p>
      <Changed paths={changes} more={moreChanges} isFirst={isFirst} />
    </li>
  );
}

const LOADED: Readonly<Record<string, string>> = {
  start: "by a start",
  watch: "because a file changed",
  signal: "by a signal",
  library: "by the program that the service is built into",
};

function Loaded({ by }: { readonly by: string }): VNode {
  if (Object.hasOwn(LOADED, by)) return <>{LOADED[by]}</>;
  return (
    <>
      by <Text value={by.slice(by.indexOf("|") + 1)} max={120} />
    </>
  );
}

interface ChangedProps {
  readonly paths: readonly string[];
  readonly more: number;
  readonly isFirst: boolean;
}

const PATHS_SHOWN = 5;

function Changed({ paths, more, isFirst }: ChangedProps): VNode {
  if (paths.length === 0)
    return (
      <p class="dim">
        {isFirst ? "Nothing to compare with." : "No setting: a file that the configuration names changed."}
      </p>
    );
  const left = paths.length + more - Math.min(PATHS_SHOWN, paths.length);
  return (
    <p class="changed-paths">
      Changed:{" "}
      {paths.slice(0, PATHS_SHOWN).map((path, at) => (
        <span key={path}>
          {at > 0 && ", "}
          <code>
            <Text value={path} max={120} />
          </code>
        </span>
      ))}
      {left > 0 && ` and ${left} more`}
    </p>
  );
}

/** All versions. */
export function Versions(): VNode {
  return (
    <>
      <Back />
      <Heading focusKey={VERSIONS}>History of the policy</Heading>
      <History />
    </>
  );
}

function Back(): VNode {
  return (
    <a class="back-link" href={hrefOf(POLICY)}>
      ← Policy
    </a>
  );
}

/** One version, with its differences from the one before. */
export function VersionPage({ policyVersion }: { readonly policyVersion: string }): VNode {
  const { read, again } = useRead<ConfigurationVersion>(`/configuration/versions/${encodeURIComponent(policyVersion)}`);
  if (read.value === undefined)
    return (
      <>
        <Back />
        <Unread title="A version of the policy" read={read} again={again} />
      </>
    );
  const { since, by, instance, shownSha256, comparedWith, values, tools } = read.value;
  return (
    <>
      <Back />
      <Heading focusKey={policyVersion}>
        Policy <span class="mono">{policyVersion.slice(0, SHOWN)}</span>
      </Heading>
      <p class="meta">
        In use since {localTime(since)}, loaded <Loaded by={by} />, as the replica <Text value={instance} max={80} />{" "}
        has recorded.
      </p>
      <Differences version={read.value} />
      <Section id="digests" title="Digests">
        <Facts
          rows={[
            codeRow("policyVersion", policyVersion),
            codeRow("SHA-256 of this text", shownSha256),
            comparedWith === null
              ? undefined
              : [
                  "Version before",
                  <a key="before" href={versionHref(comparedWith)}>
                    <code>{comparedWith.slice(0, SHOWN)}</code>
                  </a>,
                ],
          ]}
        />
        <p class="help">
          The journal has both digests where this version was adopted. The text is in the audit's directory:{" "}
          <code>configurations/{shownSha256.slice(0, SHOWN)}….json</code>
        </p>
      </Section>
      <Settings values={values} />
      <Section id="tools" title={counted(tools.length, "tool")}>
        <details>
          <summary>Names and digests</summary>
          <Block value={tools.map(({ name, identity }) => `${identity.slice(0, SHOWN)} ${name}`)} label="Tools" />
        </details>
      </Section>
    </>
  );
}

function Differences({ version }: { readonly version: ConfigurationVersion }): VNode {
  const { comparedWith, differences, moreDifferences } = version;
  return (
    <Section id="differences" title="What it changed">
      {comparedWith === null && <p class="dim">There is no version before it to compare with.</p>}
      {comparedWith !== null && differences.length === 0 && (
        <p class="dim">
          No setting and no tool: a file that the configuration names changed, or a value that is not shown.
        </p>
      )}
      {differences.map(({ path, ...change }) => (
        <div key={path} class="difference">
          <h3>
            <code>
              <Text value={path} max={200} />
            </code>
          </h3>
          {isOfTool(path, change) ? (
            <p>{toolChange(change)}</p>
          ) : (
            <Block value={linesOf(change)} as="diff" label={`Change of ${path}`} />
          )}
        </div>
      ))}
      {moreDifferences > 0 && <p class="omission">{counted(moreDifferences, "more difference")} not shown.</p>}
    </Section>
  );
}

type Change = Pick<ConfigurationVersion["differences"][number], "before" | "after">;

const DIGEST = /^[0-9a-f]{64}$/;

/** Returns whether a difference belongs to a tool: the configuration text contains a tool as a digest. */
function isOfTool(path: string, { before, after }: Change): boolean {
  return path.startsWith("tools") && [before, after].every((one) => one === undefined || DIGEST.test(String(one)));
}

function toolChange({ before, after }: Change): string {
  if (before === undefined) return "This tool is new.";
  if (after === undefined) return "This tool is gone.";
  return "This tool changed: its manifest, what the manifest imports, the policy about it, or its system's settings.";
}

function linesOf(change: Change): readonly string[] {
  const lines = (sign: string, value: unknown): readonly string[] =>
    value === undefined ? [] : jsonLines(value).map((line) => `${sign} ${line}`);
  return [...lines("-", change.before), ...lines("+", change.after)];
}
