import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { AuditActivity } from "../../../core/api/audit.ts";
import type { HaltListed, HaltListing } from "../../../core/api/halts.ts";
import type { QuotaListing } from "../../../core/api/quotas.ts";
import { isMisreadable } from "../../../core/printable.ts";
import { ApiError, request } from "../api.ts";
import { CallerLink } from "../caller.tsx";
import { linesOf } from "../escapes.ts";
import {
  ConfirmButtons,
  DURATIONS,
  HaltedBy,
  haltTerms,
  liftHalts,
  MatchedCalls,
  readHalts,
  setHalt,
  TermFields,
  useHalts,
} from "../halting.tsx";
import { Ago, Badge, Countdown, Dialog, Empty, Heading, Problem } from "../parts.tsx";
import { Columns, ROLE, Scrolling, Section, Unread, useRead } from "../records.tsx";
import { permissions } from "../session.ts";
import type { PageContent } from "../state.ts";
import { Text } from "../text.tsx";
import { TenantField, tenantIn } from "./tenant-field.tsx";
import { UnusedQuotas } from "./unused.tsx";

/** Halts in force, which operators set and lift here, and quotas with their use. */

/** The body of `POST /halts`. */
type Wanted = Readonly<Record<string, string | number | boolean>>;

/** The dialog that is open. */
type Open =
  | { readonly kind: "compose" }
  | { readonly kind: "confirm"; readonly wanted: Wanted }
  | { readonly kind: "lift"; readonly halt: HaltListed };

const open = signal<Open | undefined>(undefined);
const close = (): void => {
  open.value = undefined;
};

function LimitsView(): VNode {
  const read = useHalts();
  const dialog = open.value;
  return (
    <div class="sheet story">
      {read.value === undefined ? (
        <Unread title="Limits" read={read} again={() => void readHalts()} />
      ) : (
        <>
          <Heading>Limits</Heading>
          {read.error !== undefined && <Problem error={read.error} onRetry={() => void readHalts()} />}
          <Halts list={read.value} />
        </>
      )}
      {permissions.value.has("quotas:read") && <Quotas />}
      {dialog?.kind === "compose" && <Compose />}
      {dialog?.kind === "confirm" && <ConfirmHalt wanted={dialog.wanted} />}
      {dialog?.kind === "lift" && <ConfirmLift halt={dialog.halt} />}
    </div>
  );
}

function Halts({ list: { halts, state } }: { readonly list: HaltListing }): VNode {
  const mayWrite = permissions.value.has("halts:write");
  return (
    <>
      {state.status !== "ok" && (
        <p class="callout tone-bad" role="alert">
          The service cannot read the halts from its database. Those that it knows stay in force.
        </p>
      )}
      {state.scope === "process" && (
        <p class="callout tone-plain">
          Halts apply to this process only, and end with it: there is no store of approvals.
        </p>
      )}
      {mayWrite && (
        <p>
          <button type="button" class="danger" onClick={() => (open.value = { kind: "compose" })}>
            Halt calls …
          </button>
        </p>
      )}
      {halts.length === 0 ? (
        <Empty title="Nothing is halted">
          <p>A halt stops calls of a tool, a system, a caller or a session, or all calls, at once and everywhere.</p>
        </Empty>
      ) : (
        <table class="records acted" {...ROLE.table}>
          <caption class="sr-only">Halts in force</caption>
          <Columns titles={["Halted", "Why", "Set by", "Ends", "Change"]} />
          <tbody {...ROLE.group}>
            {halts.map((halt) => (
              <HaltRow key={halt.id} halt={halt} mayWrite={mayWrite} />
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

function HaltRow({ halt, mayWrite }: { readonly halt: HaltListed; readonly mayWrite: boolean }): VNode {
  const { reason, setBy, setAt, until, ofService } = halt;
  return (
    <tr {...ROLE.row}>
      <td class="cell-lead" {...ROLE.cell}>
        <Target {...halt} />
      </td>
      <td data-label="Why" {...ROLE.cell}>
        {reason === undefined ? <span class="dim">not shown</span> : <Text value={reason} max={300} />}
      </td>
      <td data-label="Set by" {...ROLE.cell}>
        <span>
          <HaltedBy sub={setBy?.subject} iss={setBy?.issuer} />, <Ago iso={setAt} />
        </span>
      </td>
      <td data-label="Ends" {...ROLE.cell}>
        {until === undefined ? (
          "when it is lifted"
        ) : (
          <span>
            in <Countdown iso={until} />
          </span>
        )}
      </td>
      <td class="cell-action" {...ROLE.cell}>
        {ofService === undefined ? (
          mayWrite && (
            <button type="button" onClick={() => (open.value = { kind: "lift", halt })}>
              Lift …
            </button>
          )
        ) : (
          <span class="dim">by the service only</span>
        )}
      </td>
    </tr>
  );
}

type Names = Pick<HaltListed, "tool" | "system" | "issuer" | "subject" | "session" | "tenant">;

interface TargetProps extends Names, Pick<HaltListed, "cancelRunning"> {
  readonly kind: string;
}

/** Returns in words which calls are halted. */
function Target({ kind, cancelRunning, ...names }: TargetProps): VNode {
  const named = names.tool ?? names.system ?? names.session;
  // In a tenant, a halt of the service for all tenants names no caller and no session.
  const isNameless = kind !== "all" && (named ?? names.subject) === undefined;
  return (
    <span>
      {kind === "all" && <Badge tone="bad">all calls</Badge>}
      {names.subject !== undefined && (
        <>
          {kind} <CallerLink sub={names.subject} iss={names.issuer} />
        </>
      )}
      {named !== undefined && (
        <>
          {kind}{" "}
          <code>
            <Text value={named} max={120} />
          </code>
        </>
      )}
      {names.tenant !== undefined && (
        <>
          {" "}
          of tenant{" "}
          <code>
            <Text value={names.tenant} max={40} />
          </code>
        </>
      )}
      {isNameless && (
        <>
          {kind} <span class="dim">that is not shown</span>
        </>
      )}
      {cancelRunning && <span class="dim"> and running ones</span>}
    </span>
  );
}

const KINDS = [
  ["tool", "Calls of a tool"],
  ["system", "Calls of the tools of a system"],
  ["caller", "Calls of a caller, also as an actor for others"],
  ["session", "Calls in a session"],
  ["all", "All calls"],
] as const;

const FIELDS: Readonly<Record<string, readonly (readonly [name: string, words: string])[]>> = {
  tool: [["tool", "Tool"]],
  system: [["system", "System"]],
  session: [["session", "Session"]],
  caller: [
    ["issuer", "Issuer of the caller's tokens"],
    ["subject", "Subject of the caller's tokens"],
  ],
};

/** The filters of the audit for the members of a halt. A call's line need not name its session. */
const FILTERS: Readonly<Record<string, string>> = { tool: "tool", system: "system", issuer: "iss", subject: "sub" };

/** Returns the filter of the service's own calls that a halt would stop; undefined for those of a session. */
function filterOf(wanted: Wanted): Readonly<Record<string, string>> | undefined {
  if (wanted["kind"] === "session") return undefined;
  return Object.fromEntries(
    Object.entries(wanted).flatMap(([name, value]) => {
      const param = FILTERS[name];
      return param === undefined ? [] : [[param, String(value)]];
    }),
  );
}

const SUGGESTED_MAX = 200;
const SUGGESTED_CHARACTERS_MAX = 128;

/** Returns names that a browser can show as they are: anybody can call a tool that there is not, and its name is suggested. */
function suggestible(names: readonly string[]): readonly string[] {
  const plain = names.filter(
    (name) =>
      name.length <= SUGGESTED_CHARACTERS_MAX &&
      !isMisreadable(name) &&
      linesOf(name).every((pieces) => pieces.every(({ kind, text }) => kind === "text" && name.includes(text))),
  );
  return [...new Set(plain)].slice(0, SUGGESTED_MAX);
}

/** Callers and tools of the last day, for those who may read the audit. */
function useRecentNames(): Readonly<Record<string, readonly string[]>> {
  const [activity, setActivity] = useState<AuditActivity>();
  useEffect(() => {
    // Without suggestions, names are typed.
    if (permissions.value.has("audit:read"))
      void request<AuditActivity>("GET", "/audit/activity").then(setActivity, () => {});
  }, []);
  if (activity === undefined) return {};
  const { callers, tools } = activity;
  return {
    tool: suggestible(tools.map(({ tool }) => tool)),
    issuer: suggestible(callers.flatMap(({ iss }) => iss ?? [])),
    subject: suggestible(callers.flatMap(({ sub, iss }) => (iss === undefined ? [] : sub))),
  };
}

/** Asks what to halt, and why. Nothing is halted before the next dialog is confirmed. */
function Compose(): VNode {
  const [kind, setKind] = useState<string>("tool");
  const recent = useRecentNames();
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    const written = new FormData(event.currentTarget);
    const names = (FIELDS[kind] ?? []).map(([name]) => [name, String(written.get(name)).trim()] as const);
    open.value = {
      kind: "confirm",
      wanted: {
        kind,
        ...Object.fromEntries(names),
        ...tenantIn(written),
        ...haltTerms(written),
      },
    };
  };
  return (
    <Dialog title="Halt calls" onClose={close}>
      <form onSubmit={submit}>
        <fieldset class="choices">
          <legend>What is halted</legend>
          {KINDS.map(([name, words]) => (
            <label key={name}>
              <input type="radio" name="kind" value={name} checked={kind === name} onChange={() => setKind(name)} />
              <span>{words}</span>
            </label>
          ))}
        </fieldset>
        {(FIELDS[kind] ?? []).map(([name, words]) => (
          <div class="field" key={name}>
            <label for={`halt-${name}`}>{words}</label>
            <input
              id={`halt-${name}`}
              name={name}
              type="text"
              required
              pattern=".*\S.*"
              autocomplete="off"
              list={recent[name] === undefined ? undefined : `halt-${name}-list`}
            />
            {recent[name] !== undefined && (
              <datalist id={`halt-${name}-list`}>
                {recent[name].map((each) => (
                  <option key={each} value={each} />
                ))}
              </datalist>
            )}
          </div>
        ))}
        <TenantField />
        <TermFields />
        <div class="decide-buttons dialog-buttons">
          <button type="submit" class="danger">
            Continue …
          </button>
          <button type="button" onClick={close}>
            Back
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function ConfirmHalt({ wanted }: { readonly wanted: Wanted }): VNode {
  const confirm = (): void => {
    close();
    void setHalt(wanted, "The calls are halted.");
  };
  const text = (name: string): string | undefined => (wanted[name] === undefined ? undefined : String(wanted[name]));
  const names = { tool: text("tool"), system: text("system"), session: text("session"), tenant: text("tenant") };
  const caller = { issuer: text("issuer"), subject: text("subject") };
  const shown = Object.fromEntries(Object.entries({ ...names, ...caller }).filter(([, value]) => value !== undefined));
  const hasTenants = useHalts().value?.tenants !== undefined;
  const duration = DURATIONS.find(([seconds]) => seconds === (wanted["forSeconds"] ?? 0))?.[1];
  return (
    <Dialog title="Halt these calls?" onClose={close}>
      <p>
        <Target kind={String(wanted["kind"])} cancelRunning={wanted["cancelRunning"] === true} {...shown} />, {duration}
      </p>
      {wanted["tenant"] === undefined && (
        <>
          <MatchedCalls filter={filterOf(wanted)} />
          {hasTenants && <p class="help">Calls of tenants are not counted.</p>}
        </>
      )}
      <p>
        They are refused on every replica within a second. Calls that wait for an approver end; their requests stay.
      </p>
      <ConfirmButtons title="Halt now" onConfirm={confirm} onBack={close} />
    </Dialog>
  );
}

function ConfirmLift({ halt }: { readonly halt: HaltListed }): VNode {
  const confirm = (): void => {
    close();
    void liftHalts([halt], "The halt is lifted.");
  };
  return (
    <Dialog title="Lift this halt?" onClose={close}>
      <p>
        <Target {...halt} />
      </p>
      <p>
        It was set because: <Text value={halt.reason ?? ""} max={300} />
      </p>
      <ConfirmButtons title="Lift the halt" onConfirm={confirm} onBack={close} />
    </Dialog>
  );
}

function Quotas(): VNode {
  const { read, again } = useRead<QuotaListing>("/quotas");
  const isMissing = read.error instanceof ApiError && read.error.code === "ROUTE_NOT_FOUND";
  const use = read.value?.use;
  return (
    <Section id="quotas" title="Quotas">
      {read.error !== undefined && !isMissing && <Problem error={read.error} onRetry={again} />}
      {isMissing && <p class="dim">The configuration has no quotas.</p>}
      {use?.length === 0 && <p class="dim">No quota is used in the present windows.</p>}
      {use !== undefined && use.length > 0 && (
        <Scrolling label="Use of the quotas">
          <table class="records wide" {...ROLE.table}>
            <Columns titles={["Quota", "Of", "Used", "Limit", "Ends"]} numbers={["Used", "Limit"]} />
            <tbody>
              {use.map((one, at) => (
                <tr key={at}>
                  <td>
                    <code>
                      <Text value={one.quota} max={64} />
                    </code>
                  </td>
                  <td>
                    <QuotaOwner use={one} />
                  </td>
                  <td class="cell-number">
                    {isSpent(one) && <Badge tone="bad">used up</Badge>} {one.used.toLocaleString()} {one.unit}
                  </td>
                  <td class="cell-number">{one.limit?.toLocaleString() ?? "none now"}</td>
                  <td>
                    in <Countdown iso={new Date(one.endsAt).toISOString()} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scrolling>
      )}
      {read.value !== undefined && read.value.cursor === undefined && <UnusedQuotas {...read.value} />}
      {read.value?.cursor !== undefined && (
        <p class="help">
          There are more. <code>stc quotas list</code> lists all of them.
        </p>
      )}
    </Section>
  );
}

function isSpent({ used, limit }: QuotaListing["use"][number]): boolean {
  return limit !== undefined && used >= limit;
}

function QuotaOwner({ use: { subject, issuer, tool, system } }: { readonly use: QuotaListing["use"][number] }): VNode {
  const name = tool ?? system;
  if (subject === undefined && name === undefined) return <span>everybody</span>;
  return (
    <span>
      {subject !== undefined && <CallerLink sub={subject} iss={issuer} />}{" "}
      {name !== undefined && (
        <code>
          <Text value={name} max={80} />
        </code>
      )}
    </span>
  );
}

export const limitsPage: PageContent = {
  view: LimitsView,
  run: () => close,
};
