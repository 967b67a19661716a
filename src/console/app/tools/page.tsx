import { computed, signal } from "@preact/signals";
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import type { ToolCatalog, ToolDetails, ToolSummary } from "../../../core/api/inventory.ts";
import { durationText } from "../calls/model.ts";
import { Badge, Empty, Facts, Heading, RiskBadge } from "../parts.tsx";
import { Columns, codeRow, jsonLines, Names, ROLE, Section, Unread, useRead, useRowsOnce } from "../records.tsx";
import { hrefOf } from "../route.ts";
import { type PageContent, route } from "../state.ts";
import { Block, Sentence, Text } from "../text.tsx";
import { bytesText, compareNames, counted, hasWords } from "../words.ts";
import { WouldHappen } from "./explain.tsx";

/** The tools: what each may do, who may call it, who approves it, and what is released of its answers. */

const filter = signal("");
const chosen = computed(() => (route.value.page === "tools" ? route.value.rest[0] : undefined));

function ToolsView(): VNode {
  return chosen.value === undefined ? <List /> : <Tool key={chosen.value} name={chosen.value} />;
}

function List(): VNode {
  const { read, again } = useRead<ToolCatalog>("/catalog");
  const { value } = read;
  return (
    <div class="sheet">
      {value === undefined ? <Unread title="Tools" read={read} again={again} /> : <Listed catalog={value} />}
    </div>
  );
}

function Listed({ catalog: { tools, notRegistered } }: { readonly catalog: ToolCatalog }): VNode {
  const sorted = useMemo(() => tools.toSorted(compareTools), [tools]);
  const shown = sorted.filter((tool) => hasWords(searchedTexts(tool), filter.value));
  const count = counted(tools.length, "tool");
  return (
    <>
      <header class="sheet-head">
        <Heading>
          Tools <span class="dim">{shown.length < tools.length ? `${shown.length} of ${count}` : count}</span>
        </Heading>
        <input
          class="head-filter"
          type="search"
          placeholder="Name, system, permission …"
          aria-label="Filter tools by name, system, classification or permission"
          value={filter.value}
          onInput={({ currentTarget }) => {
            filter.value = currentTarget.value;
          }}
        />
      </header>
      {notRegistered.length > 0 && (
        <div class="callout tone-warn">
          <p>
            <strong>{counted(notRegistered.length, "tool")} not loaded</strong>
          </p>
          <ul class="notes">
            {notRegistered.map((reason) => (
              <li key={reason}>
                <Sentence value={reason} max={600} />
              </li>
            ))}
          </ul>
        </div>
      )}
      {shown.length === 0 ? <Empty title="No tool matches" /> : <Table tools={shown} />}
    </>
  );
}

/** Orders tools by name; those that cannot be called come first, because somebody has to look at them. */
function compareTools(one: ToolSummary, other: ToolSummary): number {
  return Number(other.isQuarantined) - Number(one.isQuarantined) || compareNames(one.name, other.name);
}

function searchedTexts(tool: ToolSummary): readonly string[] {
  const { name, title, system, kind, classification, permissions, elevated, isQuarantined } = tool;
  const state = isQuarantined ? "quarantined" : "";
  return [name, title, system, kind, classification, state, ...permissions, ...elevated];
}

function Table({ tools }: { readonly tools: readonly ToolSummary[] }): VNode {
  const rowOf = useRowsOnce<ToolSummary>((tool) => <Row key={tool.name} tool={tool} />);
  return (
    <table class="records long" {...ROLE.table}>
      <caption class="sr-only">Tools</caption>
      <Columns titles={Object.keys(CLASSES)} classes={CLASSES} />
      <tbody {...ROLE.group}>{tools.map(rowOf)}</tbody>
    </table>
  );
}

/** The columns, and the class of each. */
const CLASSES = {
  Tool: "cell-tool",
  System: "cell-system",
  Class: "cell-class",
  Approval: "cell-asks",
  Permissions: "cell-names",
};

function Row({ tool }: { readonly tool: ToolSummary }): VNode {
  return (
    <tr {...ROLE.row}>
      <td class="cell-tool" {...ROLE.cell}>
        <a href={hrefOf("tools", [tool.name])}>
          <code>
            <Text value={tool.name} max={80} />
          </code>
        </a>
        {tool.isQuarantined && <Badge tone="bad">quarantined</Badge>}
      </td>
      <td class="cell-system" {...ROLE.cell}>
        <Text value={tool.system} max={80} /> {tool.kind !== tool.system && <span class="dim">{tool.kind}</span>}
      </td>
      <td class="cell-class" {...ROLE.cell}>
        <Classification of={tool.classification} />
      </td>
      <td class="cell-asks" {...ROLE.cell}>
        {ASKS[tool.asks] ?? tool.asks}
      </td>
      <td class="cell-names" {...ROLE.cell}>
        <Names names={[...tool.permissions, ...tool.elevated.map((name) => `(${name})`)]} none="none" />
      </td>
    </tr>
  );
}

const ASKS: Readonly<Record<string, string>> = { always: "always", "by mode": "by mode", no: "only by rule" };
const TONES: Readonly<Record<string, string>> = { read: "good", write: "warn", destructive: "bad" };

function Classification({ of }: { readonly of: string }): VNode {
  return <Badge tone={TONES[of] ?? "plain"}>{of}</Badge>;
}

function Tool({ name }: { readonly name: string }): VNode {
  const { read, again } = useRead<ToolDetails>(`/catalog/${encodeURIComponent(name)}`);
  return (
    <article class="sheet story">
      <a class="back-link" href="#/tools">
        ← All tools
      </a>
      {read.value === undefined ? <Unread title="Tool" read={read} again={again} /> : <Details tool={read.value} />}
    </article>
  );
}

function Details({ tool }: { readonly tool: ToolDetails }): VNode {
  const { name, title, system, classification, category, description, quarantine, approval, notes } = tool;
  return (
    <>
      <header class="story-head">
        <div class="badges">
          <Classification of={classification} />
          {category !== classification && <Badge>{category}</Badge>}
          {approval.risk !== undefined && <RiskBadge risk={approval.risk} />}
          {quarantine !== undefined && <Badge tone="bad">quarantined</Badge>}
        </div>
        <Heading focusKey={name}>
          <span class="mono">
            <Text value={name} max={120} />
          </span>
          <span class="on-system">
            {" "}
            on <Text value={system} max={120} />
          </span>
        </Heading>
        <p class="meta">
          <Text value={title} max={200} /> · version <Text value={tool.version} max={40} />
        </p>
      </header>
      {quarantine !== undefined && <Quarantined quarantine={quarantine} />}
      <div class="story-columns">
        <div>
          <Section id="description" title="What it does">
            <p>
              <Text value={description} max={1_200} />
            </p>
            <a href={hrefOf("calls", [], new URLSearchParams({ tool: name }))}>Its latest calls</a>
          </Section>
          <Section id="target" title="What it reaches">
            <Block value={jsonLines(tool.target)} label="Target" />
          </Section>
          <Section id="input" title="Arguments">
            <Block value={jsonLines(tool.inputSchema)} label="JSON Schema of the arguments" />
          </Section>
          <Section id="output" title="Answer">
            <Block value={jsonLines(tool.outputSchema)} label="JSON Schema of the answer" />
          </Section>
        </div>
        <div>
          <WouldHappen key={name} tool={name} />
          <Approval tool={tool} />
          <Section id="callers" title="Who may call it">
            <Facts
              rows={[
                ["Permissions", <Names key="permissions" names={tool.permissions} none="none" />],
                tool.elevated.length === 0
                  ? undefined
                  : ["For some arguments", <Names key="elevated" names={tool.elevated} />],
                ["Subjects", <Names key="subjects" names={tool.callers.subjects} none="none in the configuration" />],
                tool.callers.roles.length === 0
                  ? undefined
                  : ["By role", <Names key="roles" names={tool.callers.roles} />],
                tool.callers.certificates.length === 0
                  ? undefined
                  : ["By certificate", <Names key="certificates" names={tool.callers.certificates} />],
              ]}
            />
            <p class="help">Permissions in tokens are known only to those who issue them.</p>
          </Section>
          <Rules id="released" title="What is released of an answer" rules={tool.outputPolicy} none="Nothing." />
          <Rules
            id="logged"
            title="What the audit may hold of the arguments"
            rules={tool.inputPolicy}
            none="Only enums, booleans, bounded numbers and UUIDs."
          />
          <Section id="limits" title="Limits">
            <Facts
              rows={[
                ["Time", durationText(tool.timeoutMs)],
                ...Object.entries(tool.limits).map(
                  ([key, value = 0]) =>
                    [LIMITS[key] ?? key, key.includes("Bytes") ? bytesText(value) : String(value)] as const,
                ),
                ["Repeatable", tool.idempotent ? "yes: the same call twice does no harm" : "no"],
                ...(tool.additive ? [["Only adds", "yes: never changes or removes what exists"] as const] : []),
                ["Error texts", tool.errors === "filtered" ? "filtered for the agent" : "kept from the agent"],
                codeRow("Manifest", tool.source),
                codeRow("Identity, SHA-256", tool.identity),
              ]}
            />
          </Section>
          {notes.length > 0 && (
            <Section id="notes" title="Notes">
              <ul class="notes">
                {notes.map(({ field, message }) => (
                  <li key={`${field} ${message}`}>
                    <code>
                      <Text value={field} max={120} />
                    </code>{" "}
                    <Sentence value={message} max={600} />
                  </li>
                ))}
              </ul>
            </Section>
          )}
        </div>
      </div>
    </>
  );
}

const LIMITS: Readonly<Record<string, string>> = {
  outputBytesMax: "Result",
  resultBytesMax: "Result over MCP",
  concurrentCallsMax: "Calls at once",
};

function Quarantined({
  quarantine: { reason, changes },
}: {
  readonly quarantine: NonNullable<ToolDetails["quarantine"]>;
}): VNode {
  return (
    <div class="callout tone-bad">
      <p>
        <strong>It is not called: </strong>
        <Sentence value={reason} max={600} />
      </p>
      {changes.length > 0 && <Block value={changes} label="What its server changed" />}
      <p>Whoever trusts the change pins the new definition in the manifest and reloads the service.</p>
    </div>
  );
}

function grantsText({ runs, minutes, arguments: bounds }: NonNullable<ToolDetails["approval"]["grants"]>): string {
  const varying = Object.entries(bounds).map(([name, bound]) => `; ${name}: ${bound}`);
  return `at most ${counted(runs, "run")} in ${counted(minutes, "minute")}${varying.join("")}`;
}

function Approval({ tool: { asks, approval } }: { readonly tool: ToolDetails }): VNode {
  const { policies, message, scopes, grants, dependsOnArguments } = approval;
  return (
    <Section id="approval" title="Who approves it">
      <Facts
        rows={[
          ["Asks", ASKS[asks] ?? asks],
          dependsOnArguments ? ["Depends on", "the arguments: its manifest decides"] : undefined,
          ["Approvals for", scopes.join(", or for the ")],
          grants === undefined
            ? undefined
            : ["Several calls", <Text key="grants" value={grantsText(grants)} max={1_000} />],
          message === undefined ? undefined : ["Approvers read", <Text key="message" value={message} max={400} />],
        ]}
      />
      {policies.length === 0 && <p class="dim">No policy applies: one approver is enough.</p>}
      {policies.map(({ name, risk, stages, reasonRequired }) => (
        <div key={name} class="policy">
          <h3>
            <Text value={name} max={120} /> {risk !== "low" && <span class="dim">from {risk} risk</span>}
          </h3>
          <ol class="stages">
            {stages.map((stage) => (
              <li key={stage.name} class="stage">
                <span class="stage-count">{stage.count}</span>
                <span>
                  <strong>
                    <Text value={stage.name} max={80} />
                  </strong>
                  {stage.deciders.permissions.length > 0 && (
                    <span class="deciders dim">
                      holders of <Text value={stage.deciders.permissions.join(", ")} max={300} />
                    </span>
                  )}
                  {stage.deciders.subjects !== undefined && (
                    <span class="deciders dim">
                      one of <Text value={stage.deciders.subjects.map(({ subject }) => subject).join(", ")} max={300} />
                    </span>
                  )}
                </span>
              </li>
            ))}
          </ol>
          {reasonRequired !== "never" && (
            <p class="dim">
              {reasonRequired === "always" ? "Every decision needs a reason." : "A denial needs a reason."}
            </p>
          )}
        </div>
      ))}
    </Section>
  );
}

interface RulesProps {
  readonly id: string;
  readonly title: string;
  readonly rules: ToolDetails["inputPolicy"];
  readonly none: string;
}

const ACTIONS: Readonly<Record<string, string>> = { allow: "good", mask: "warn", redact: "bad" };

function Rules({ id, title, rules, none }: RulesProps): VNode {
  return (
    <Section id={id} title={title}>
      {rules.length === 0 && <p class="dim">{none}</p>}
      <ul class="rules">
        {rules.map(({ field, action, reason }) => (
          <li key={field}>
            <Badge tone={ACTIONS[action] ?? "plain"}>{action}</Badge>
            <code>
              <Text value={field} max={160} />
            </code>
            {reason !== undefined && (
              <span class="dim">
                <Text value={reason} max={300} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </Section>
  );
}

export const toolsPage: PageContent = {
  view: ToolsView,
};
