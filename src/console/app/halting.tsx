import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { AuditActivity } from "../../core/api/audit.ts";
import type { HaltListed, HaltListing, HaltSet } from "../../core/api/halts.ts";
import { request } from "./api.ts";
import type { AgentName, CallerName } from "./caller.tsx";
import { Badge, Dialog, Party } from "./parts.tsx";
import { type Read, useRead } from "./records.tsx";
import { permissions } from "./session.ts";
import { errorOf, notify, notifyError } from "./state.ts";
import { Text } from "./text.tsx";
import { counted } from "./words.ts";

/** Halts as all pages need them: which callers are halted, and stopping one where its name is. */

const PATH = "/halts";
const READ_EVERY_MS = 10_000;
/** A confirmation counts only after this time: a second click on the button before it must not confirm. */
const ARM_MS = 700;

export const DURATIONS = [
  [0, "until it is lifted"],
  [900, "15 minutes"],
  [3_600, "an hour"],
  [28_800, "8 hours"],
  [86_400, "a day"],
] as const;

const REASON_CHARACTERS_MAX = 500;

const halts = signal<Read<HaltListing>>({ path: PATH });
let watchers = 0;
let timer: ReturnType<typeof setInterval> | undefined;

let lastReading = 0;

/** Reads the halts in force now. Nothing for operators who may not. */
export async function readHalts(): Promise<void> {
  if (!permissions.value.has("halts:read")) return;
  lastReading += 1;
  const own = lastReading;
  // An answer to an earlier request, from before a halt was set, must not replace that of a later one.
  const show = (read: Read<HaltListing>): void => {
    if (own === lastReading) halts.value = read;
  };
  try {
    show({ path: PATH, value: await request<HaltListing>("GET", PATH) });
  } catch (error) {
    // Those that were known stay marked.
    show({ ...halts.value, error: errorOf(error) });
  }
}

/** Reads the halts in force, and again every ten seconds while a component that calls this is shown. */
export function useHalts(): Read<HaltListing> {
  const mayRead = permissions.value.has("halts:read");
  useEffect(() => {
    if (!mayRead) return;
    watchers += 1;
    if (watchers === 1) {
      void readHalts();
      timer = setInterval(() => document.visibilityState === "visible" && void readHalts(), READ_EVERY_MS);
    }
    return () => {
      watchers -= 1;
      if (watchers > 0) return;
      clearInterval(timer);
      lastReading += 1;
      halts.value = { path: PATH };
    };
  }, [mayRead]);
  return halts.value;
}

/** A call, as far as halts need it. */
interface HaltableCall extends CallerName {
  /** Subjects of its actors. */
  readonly act?: readonly string[] | undefined;
  readonly session?: string | undefined;
  readonly tool?: string | undefined;
}

/**
 * Returns the first halt in force that stops such a call, as the service judges it, but for halts of a system, which a call in a
 * list does not name; undefined when nothing is known of one. Call `useHalts` on the page, so that there is something to know.
 * Calls of tenants are on no page of the service itself: a halt that names a tenant stops none of these.
 */
export function haltOf({ sub, iss, act = [], session, tool }: HaltableCall): HaltListed | undefined {
  return halts.value.value?.halts.find((halt) => {
    if (halt.tenant !== undefined) return false;
    if (halt.kind === "all") return true;
    if (halt.kind === "tool") return halt.tool === tool;
    if (halt.kind === "session") return halt.session === session;
    return halt.kind === "caller" && (isHaltOf(halt, { sub, iss }) || act.includes(halt.subject ?? ""));
  });
}

function isHaltOf({ kind, issuer, subject, tenant }: HaltListed, { sub, iss }: CallerName): boolean {
  return kind === "caller" && subject === sub && issuer === iss && tenant === undefined;
}

/** Names the operator who set a halt. In a tenant, operators of the service have no names. */
export function HaltedBy({ sub, iss }: Pick<CallerName, "iss"> & { readonly sub: string | undefined }): VNode {
  return sub === undefined ? <>the service's operators</> : <Party sub={sub} iss={iss} />;
}

/** Marks a call that a halt stops; nothing for any other. */
export function HaltedMark(call: HaltableCall): VNode | null {
  const halt = haltOf(call);
  if (halt === undefined) return null;
  return <Badge tone="bad">{halt.kind === "all" ? "all calls halted" : `${halt.kind} halted`}</Badge>;
}

/** Sets a halt, and says so. */
export async function setHalt(body: Readonly<Record<string, unknown>>, done: string): Promise<void> {
  try {
    const { notes } = await request<HaltSet>("POST", PATH, { body });
    notify("done", [done, ...notes].join(" "));
  } catch (error) {
    notifyError("Nothing was halted", error);
  }
  await readHalts();
}

export async function liftHalts(lifted: readonly HaltListed[], done: string): Promise<void> {
  try {
    for (const { id } of lifted) await request("DELETE", `${PATH}/${encodeURIComponent(id)}`);
    notify("done", done);
  } catch (error) {
    notifyError("The halt was not lifted", error);
  }
  await readHalts();
}

/** The fields of a halt that do not say what is halted. `haltTerms` reads them. */
export function TermFields(): VNode {
  return (
    <>
      <div class="field">
        <label for="halt-reason">Why. Agents are not told</label>
        <textarea id="halt-reason" name="reason" rows={2} maxLength={REASON_CHARACTERS_MAX} required />
      </div>
      <div class="field">
        <label for="halt-seconds">How long</label>
        <select id="halt-seconds" name="seconds">
          {DURATIONS.map(([seconds, words]) => (
            <option key={seconds} value={seconds}>
              {words}
            </option>
          ))}
        </select>
      </div>
      <fieldset class="choices">
        <legend>Running calls</legend>
        <label>
          <input type="checkbox" name="cancel" />
          <span>End them too. Of a change it is then unknown whether it happened.</span>
        </label>
      </fieldset>
    </>
  );
}

export function haltTerms(written: FormData) {
  const forSeconds = Number(written.get("seconds"));
  return {
    reason: String(written.get("reason")).trim(),
    cancelRunning: written.get("cancel") !== null,
    ...(forSeconds > 0 && { forSeconds }),
  };
}

interface MatchedProps {
  /** Filters of the audit; undefined for calls that it cannot search for. */
  readonly filter: Readonly<Record<string, string>> | undefined;
}

/** Says how many calls a halt would have stopped lately. Nothing for operators who may not read the audit. */
export function MatchedCalls({ filter }: MatchedProps): VNode | null {
  if (!permissions.value.has("audit:read")) return null;
  return filter === undefined ? (
    <p class="help">The audit cannot count the calls of a session.</p>
  ) : (
    <Matched filter={filter} />
  );
}

function Matched({ filter }: { readonly filter: NonNullable<MatchedProps["filter"]> }): VNode {
  const { read } = useRead<AuditActivity>(`/audit/activity?${new URLSearchParams(filter)}`);
  const { value, error } = read;
  if (error !== undefined) return <p class="help">How many calls match is not known now: {error.code}.</p>;
  const [hour, day] = [value?.all.hour, value?.all.day].map((calls) => sumOf(calls ?? {}));
  const most = value?.isPartial === true ? "at least " : "";
  return (
    <p role="status">
      {value === undefined ? (
        "Counting the calls that match …"
      ) : (
        <>
          <strong>{counted(hour ?? 0, "call")}</strong> matched in the last hour, {most}
          {(day ?? 0).toLocaleString()} in the last day.
          {filter["sub"] !== undefined && " Calls in which it acts for others are not counted."}
        </>
      )}
    </p>
  );
}

/** Returns the number of calls of all decisions. */
export function sumOf(calls: AuditActivity["all"]["day"]): number {
  return Object.values(calls).reduce((sum, count) => sum + count, 0);
}

interface ConfirmButtonsProps {
  readonly title: string;
  /** Missing where the button submits a form. */
  readonly onConfirm?: () => void;
  readonly onBack: () => void;
}

/** The buttons of a confirmation, which counts only some time after it appeared. */
export function ConfirmButtons({ title, onConfirm, onBack }: ConfirmButtonsProps): VNode {
  const [isArmed, setArmed] = useState(false);
  useEffect(() => {
    const arming = setTimeout(() => setArmed(true), ARM_MS);
    return () => clearTimeout(arming);
  }, []);
  return (
    <div class="decide-buttons dialog-buttons">
      <button
        type={onConfirm === undefined ? "submit" : "button"}
        class="danger solid"
        disabled={!isArmed}
        onClick={onConfirm}
      >
        {title}
      </button>
      <button type="button" onClick={onBack}>
        Back
      </button>
    </div>
  );
}

/** A button that halts exactly this caller, or lets it go on where it is halted. For operators with `halts:write`. */
export function StopAgent({ sub, iss }: CallerName): VNode | null {
  // The halts when the dialog was opened. The dialog never switches between halting and lifting, and lifts only halts that it shows.
  const [opened, setOpened] = useState<readonly HaltListed[]>();
  const all = useHalts().value?.halts ?? [];
  const own = all.filter((halt) => halt.ofService === undefined && isHaltOf(halt, { sub, iss }));
  const close = (): void => setOpened(undefined);
  if (!permissions.value.has("halts:write") || iss === undefined || iss === "" || sub === "") return null;
  const isHalted = own.length > 0;
  return (
    <>
      <button type="button" class={isHalted ? undefined : "danger"} onClick={() => setOpened(own)}>
        {isHalted ? "Let this agent go on …" : "Stop this agent …"}
      </button>
      {opened?.length === 0 && <Stop sub={sub} iss={iss} onClose={close} />}
      {opened !== undefined && opened.length > 0 && <GoOn halts={opened} sub={sub} iss={iss} onClose={close} />}
    </>
  );
}

/** The caller of a call, as approval requests and lines of the audit name it. */
interface AskingCaller extends CallerName {
  /** Subjects of its actors, the one that holds the token first. */
  readonly act?: readonly string[] | undefined;
}

/** Returns the agent that made a call: the actor where one acts for a person, who may go on. */
export function agentOf({ sub, iss, act = [] }: AskingCaller): CallerName {
  return { sub: act[0] ?? sub, iss };
}

interface StopProps extends AgentName {
  readonly onClose: () => void;
}

function Stop({ sub, iss, onClose }: StopProps): VNode {
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    const terms = haltTerms(new FormData(event.currentTarget));
    onClose();
    void setHalt({ kind: "caller", issuer: iss, subject: sub, ...terms }, "The agent is stopped.");
  };
  return (
    <Dialog title="Stop this agent" onClose={onClose}>
      <form onSubmit={submit}>
        <p>
          <Party sub={sub} iss={iss} />
        </p>
        <p class="help">
          Its calls are refused on every replica within a second, also those in which it acts for others. Calls that
          wait for an approver end; their requests stay.
        </p>
        <MatchedCalls filter={{ sub, iss }} />
        <TermFields />
        <ConfirmButtons title="Stop it now" onBack={onClose} />
      </form>
    </Dialog>
  );
}

function GoOn({ halts: own, sub, iss, onClose }: StopProps & { readonly halts: readonly HaltListed[] }): VNode {
  return (
    <Dialog title="Let this agent go on" onClose={onClose}>
      <p>
        <Party sub={sub} iss={iss} />
      </p>
      <p>
        It was stopped because:{" "}
        {own.map(({ id, reason }, at) => (
          <span key={id}>
            {at > 0 && "; "}
            <Text value={reason ?? ""} max={300} />
          </span>
        ))}
      </p>
      <ConfirmButtons
        title={own.length === 1 ? "Lift the halt" : "Lift these halts"}
        onConfirm={() => {
          onClose();
          void liftHalts(own, "The agent can go on.");
        }}
        onBack={onClose}
      />
    </Dialog>
  );
}
