import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import type { SystemShown, SystemsShown } from "../../../core/api/inventory.ts";
import { members, serviceNow } from "../api.ts";
import { Badge, Empty, Facts, Heading, localTime } from "../parts.tsx";
import { codeRow, Names, Section, Unread, useRead } from "../records.tsx";
import { hrefOf } from "../route.ts";
import { permissions } from "../session.ts";
import type { PageContent } from "../state.ts";
import { Sentence, Text } from "../text.tsx";
import { Bundle, Members } from "./fleet.tsx";
import { EXPIRES_SOON_MS, failingStates, isFailing } from "./model.ts";
import { Tenants } from "./tenants.tsx";

/** The systems that tools reach: whether they can be reached, how they are protected, how busy they are; and the service's own listeners. */

function SystemsView(): VNode {
  const { read, again } = useRead<SystemsShown>("/systems");
  const { value } = read;
  const reading = useSignal(0);
  const refresh = (): void => {
    reading.value += 1;
    again();
  };
  return (
    <div class="sheet systems">
      {value === undefined ? (
        <Unread title="Systems" read={read} again={again} />
      ) : (
        <>
          <header class="sheet-head">
            <Heading>Systems</Heading>
            <button type="button" onClick={refresh}>
              Refresh
            </button>
          </header>
          <Service shown={value} />
          {value.systems.length === 0 && <Empty title="No system is configured" />}
          <ul class="cards">
            {value.systems.map((system) => (
              <System key={system.name} system={system} />
            ))}
          </ul>
          {value.decisionPoints !== undefined && <DecisionPoints points={value.decisionPoints} />}
          {value.bundle !== undefined && <Bundle bundle={value.bundle} />}
          {value.members !== undefined && <Members members={value.members} reading={reading.value} />}
          {value.tenants !== undefined && <Tenants count={value.tenants} reading={reading.value} />}
          {value.listeners.length > 0 && <Listeners listeners={value.listeners} />}
          <Confinement shown={value} />
        </>
      )}
    </div>
  );
}

/** Shows whether the service accepts calls, and the notes of `/readyz`. */
function Service({ shown: { reasons, audit, revocations, notes } }: { readonly shown: SystemsShown }): VNode {
  const isReady = reasons.length === 0;
  return (
    <div class={`callout tone-${isReady ? "good" : "bad"} service-state`}>
      <p>
        <strong>{isReady ? "The service accepts calls." : "The service accepts no calls now."}</strong>{" "}
        {!isReady && <Text value={reasons.join(", ")} max={200} />}
      </p>
      <p class="dim">
        Audit: <Text value={String(audit["status"])} max={40} />
        {typeof audit["reason"] === "string" && (
          <>
            {" "}
            (<Text value={audit["reason"]} max={300} />)
          </>
        )}
        {revocations !== undefined && (
          <>
            {" "}
            · revocation list: <Text value={String(revocations["status"])} max={40} />
          </>
        )}
      </p>
      {notes.length > 0 && (
        <ul class="notes">
          {notes.map((note) => (
            <li key={note}>
              <Sentence value={note} max={600} />
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

const TLS: Readonly<Record<string, readonly [words: string, tone: string]>> = {
  none: ["no TLS", "plain"],
  server: ["TLS", "good"],
  mutual: ["mutual TLS", "good"],
};
function System({ system }: { readonly system: SystemShown }): VNode {
  const { name, kind, addresses, tls, tools, circuit, state, health, calls, contract, quarantined = [] } = system;
  const [tlsWords, tlsTone] = TLS[tls] ?? [tls, "plain"];
  const isBad = failingStates(system).length > 0 || quarantined.length > 0;
  return (
    <li class={`card-system ${isBad ? "bad" : ""}`}>
      <header>
        <h2>
          <Text value={name} max={120} /> {kind !== name && <span class="dim">{kind}</span>}
        </h2>
        <div class="badges">
          {circuit !== undefined && <Badge tone={isFailing(circuit) ? "bad" : "good"}>circuit {circuit}</Badge>}
          {state !== undefined && <Badge tone={isFailing(state) ? "bad" : "plain"}>{state.toLowerCase()}</Badge>}
          {typeof health === "string" && (
            <Badge tone={isFailing(health) ? "bad" : "good"}>
              health: <Text value={health.toLowerCase()} max={40} />
            </Badge>
          )}
          {addresses.length > 0 && <Badge tone={tlsTone}>{tlsWords}</Badge>}
        </div>
      </header>
      <Facts
        rows={[
          addresses.length === 0 ? undefined : ["Address", <Names key="addresses" names={addresses} />],
          calls === undefined ? undefined : ["Calls", <Calls key="calls" calls={calls} />],
          certificateRow("Own certificate", system.certificateExpiresAt),
          system.sessions === undefined ? undefined : ["Sessions", String(system.sessions)],
          quarantined.length === 0 ? undefined : ["Quarantined", <Names key="quarantined" names={quarantined} />],
          contract === undefined
            ? undefined
            : ["Contract", `${contract.origin}${contract.isPinned ? ", pinned" : ", not pinned"}`],
          codeRow("Contract, SHA-256", contract?.sha256),
          ["Tools", <Tools key="tools" names={tools} />],
        ]}
      />
    </li>
  );
}

function Calls({ calls: { inFlight, max } }: { readonly calls: NonNullable<SystemShown["calls"]> }): VNode {
  return (
    <span class="calls-now">
      <meter min={0} max={max} high={max * 0.8} value={inFlight} aria-label="Calls in progress" />
      {inFlight} of {max}
    </span>
  );
}

function certificateRow(name: string, expiresAt: string | null | undefined): readonly [string, VNode] | undefined {
  if (typeof expiresAt !== "string") return undefined;
  const left = Date.parse(expiresAt) - serviceNow();
  const words = left <= 0 ? "expired" : "expires";
  return [
    name,
    <span key="certificate" class={left < EXPIRES_SOON_MS ? "countdown soon" : ""}>
      {words} {localTime(expiresAt)}
    </span>,
  ];
}

function Tools({ names }: { readonly names: readonly string[] }): VNode {
  if (names.length === 0) return <span class="dim">none</span>;
  const isLinked = permissions.value.has("tools:read");
  return (
    <ul class="names">
      {names.map((name) => (
        <li key={name}>
          {isLinked ? (
            <a href={hrefOf("tools", [name])}>
              <Text value={name} max={80} />
            </a>
          ) : (
            <code>
              <Text value={name} max={80} />
            </code>
          )}
        </li>
      ))}
    </ul>
  );
}

/** The external policies that decide about calls, and whether they answer: each error denied a call. */
function DecisionPoints({ points }: { readonly points: NonNullable<SystemsShown["decisionPoints"]> }): VNode {
  return (
    <Section id="decision-points" title="Decision points">
      <ul class="cards">
        {points.map((point) => (
          <DecisionPoint key={point.name} point={point} />
        ))}
      </ul>
    </Section>
  );
}

function DecisionPoint({ point }: { readonly point: NonNullable<SystemsShown["decisionPoints"]>[number] }): VNode {
  const { name, kind, circuit, calls, facts = {}, verdicts, errors, lastError } = point;
  const isBad = circuit !== undefined && isFailing(circuit);
  return (
    <li class={`card-system ${isBad ? "bad" : ""}`}>
      <header>
        <h3>
          <Text value={name} max={120} /> <span class="dim">{kind}</span>
        </h3>
        <div class="badges">
          {circuit !== undefined && <Badge tone={isBad ? "bad" : "good"}>circuit {circuit}</Badge>}
        </div>
      </header>
      <Facts
        rows={[
          ["Verdicts", `${verdicts.allow} allow, ${verdicts.deny} deny, ${verdicts.ask} ask`],
          ["Errors", String(errors)],
          lastError === null
            ? undefined
            : [
                "Last error",
                <span key="error">
                  {localTime(lastError.at)}: <Text value={lastError.reason} max={300} />
                </span>,
              ],
          calls === undefined ? undefined : ["Calls", <Calls key="calls" calls={calls} />],
          ...Object.entries(facts).map(([fact, value]) => [words(fact), String(value)] as const),
        ]}
      />
    </li>
  );
}

/** Returns the heading of a fact: "policies" as "Policies". */
function words(fact: string): string {
  return `${fact.slice(0, 1).toUpperCase()}${fact.slice(1)}`;
}

const LISTENERS: Readonly<Record<string, string>> = {
  agents: "Calls",
  console: "Console",
  operators: "Probes and metrics",
};

/** The addresses at which the service itself listens. */
function Listeners({ listeners }: { readonly listeners: SystemsShown["listeners"] }): VNode {
  return (
    <Section id="listeners" title="Listeners of this service">
      <ul class="cards">
        {listeners.map(({ listener, addresses, tls, clientCertificates, certificateExpiresAt: expiresAt }) => {
          const [tlsWords, tlsTone] = TLS[tls] ?? [tls, "plain"];
          const isExpired = expiresAt !== null && Date.parse(expiresAt) <= serviceNow();
          return (
            <li key={listener} class={`card-system ${isExpired ? "bad" : ""}`}>
              <header>
                <h3>{LISTENERS[listener] ?? listener}</h3>
                <div class="badges">
                  {isExpired && <Badge tone="bad">certificate expired</Badge>}
                  <Badge tone={tlsTone}>{tlsWords}</Badge>
                </div>
              </header>
              <Facts
                rows={[
                  ["Address", <Names key="addresses" names={addresses} />],
                  certificateRow("Certificate", expiresAt),
                  tls === "none" ? undefined : ["Clients' certificates", clientCertificates],
                ]}
              />
            </li>
          );
        })}
      </ul>
    </Section>
  );
}

const MODES: Readonly<Record<string, string>> = {
  require: "A command that cannot be confined is not a tool.",
  prefer: "A command that cannot be confined runs unconfined, and every plan says so.",
  off: "Nothing is confined.",
};

function Confinement({ shown: { confinement } }: { readonly shown: SystemsShown }): VNode | null {
  if (confinement === undefined) return null;
  const faults = members(confinement.faults);
  return (
    <Section id="confinement" title="Confinement of commands">
      <p>
        <strong>{confinement.mode}</strong>: {MODES[confinement.mode] ?? ""}
      </p>
      <ul class="rules">
        {Object.entries(confinement.tools).map(([name, level]) => (
          <li key={name}>
            <Badge tone={level === "confined" ? "good" : "bad"}>{level}</Badge>
            <code>
              <Text value={name} max={120} />
            </code>
            {typeof faults[name] === "string" && (
              <span class="dim">
                <Text value={faults[name]} max={300} />
              </span>
            )}
          </li>
        ))}
      </ul>
    </Section>
  );
}

export const systemsPage: PageContent = {
  view: SystemsView,
};
