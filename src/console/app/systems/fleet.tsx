import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import type { FleetShown } from "../../../core/api/inventory.ts";
import type { MemberListing } from "../../../core/api/members.ts";
import type { BundleState } from "../../../core/bundle-states.ts";
import { Ago, Badge, Empty, Facts, localTime } from "../parts.tsx";
import { Columns, codeRow, ROLE, Section, Unread, useRead, useRowsOnce } from "../records.tsx";
import { Text } from "../text.tsx";
import { counted } from "../words.ts";
import { BUNDLE_TONES, type MemberShown, membersInOrder } from "./model.ts";

/** Shows the service's part in a fleet: the bundle that it follows, and the members of a hub. */

function StateBadge({ state }: { readonly state: BundleState }): VNode {
  return <Badge tone={BUNDLE_TONES[state]}>{state}</Badge>;
}

export function Bundle({ bundle }: { readonly bundle: NonNullable<FleetShown["bundle"]> }): VNode {
  const { version, digest, state, offered, expires, lastError } = bundle;
  return (
    <Section id="bundle" title="Bundle of the fleet">
      <ul class="cards">
        <li class={`card-system ${BUNDLE_TONES[state] === "bad" ? "bad" : ""}`}>
          <header>
            <h3>Version {version}</h3>
            <div class="badges">
              <StateBadge state={state} />
            </div>
          </header>
          <Facts
            rows={[
              offered === version ? undefined : ["Newest version", String(offered)],
              ["Valid until", localTime(expires)],
              lastError === null ? undefined : ["Last error", <Text key="error" value={lastError} max={300} />],
              codeRow("SHA-256", digest),
            ]}
          />
        </li>
      </ul>
    </Section>
  );
}

interface MembersProps {
  readonly members: NonNullable<FleetShown["members"]>;
  /** Changes when the list is to be read again. */
  readonly reading: number;
}

/** The list is read when somebody opens it: it can have thousands of members, and each reading is in the journal. */
export function Members({ members: { connected, bundles }, reading }: MembersProps): VNode {
  const isOpen = useSignal(false);
  return (
    <Section id="members" title="Members">
      <p class="members-now">
        {counted(connected, "connected member")}
        {bundles.length > 0 && <span class="dim">Bundles:</span>}
        {bundles.map(({ state, members }) => (
          <span key={state}>
            {members.toLocaleString()} <StateBadge state={state} />
          </span>
        ))}
        {!isOpen.value && (
          <button
            type="button"
            onClick={() => {
              isOpen.value = true;
            }}
          >
            Show members
          </button>
        )}
      </p>
      {isOpen.value && <List key={reading} />}
    </Section>
  );
}

const ROWS_SHOWN = 100;
const COLUMNS = ["Member", "Bundle", "Program", "Configuration", "Last contact"] as const;

function List(): VNode {
  const { read, again } = useRead<MemberListing>("/members");
  const rowsMax = useSignal(ROWS_SHOWN);
  const all = useMemo(() => membersInOrder(read.value?.members ?? []), [read.value]);
  const rowOf = useRowsOnce<MemberShown>((member) => <Row key={`${member.name} ${member.instance}`} member={member} />);
  if (read.value === undefined) return <Unread read={read} again={again} />;
  if (all.length === 0) return <Empty title="No member was seen in the last hour" />;
  return (
    <>
      <table class="records long" {...ROLE.table}>
        <caption class="sr-only">Members of the last hour</caption>
        <Columns titles={COLUMNS} classes={{ Member: "cell-lead", Bundle: "cell-names" }} />
        <tbody {...ROLE.group}>{all.slice(0, rowsMax.value).map(rowOf)}</tbody>
      </table>
      <footer class="table-foot">
        {all.length > rowsMax.value ? (
          <button
            type="button"
            onClick={() => {
              rowsMax.value += ROWS_SHOWN;
            }}
          >
            Show more of {counted(all.length, "member")}
          </button>
        ) : (
          <span class="dim">{counted(all.length, "member")} of the last hour</span>
        )}
      </footer>
    </>
  );
}

/** Enough to tell configurations apart, as in `stc fleet members`. */
const DIGITS_SHOWN = 12;

function Row({ member }: { readonly member: MemberShown }): VNode {
  const { name, tenant, instance, version, policyVersion, bundle, connected, lastContact } = member;
  return (
    <tr {...ROLE.row}>
      <td class="cell-lead" {...ROLE.cell}>
        <strong>
          <Text value={name} max={120} />
        </strong>{" "}
        <span class="dim">
          <Text value={instance} max={80} />
          {tenant !== undefined && <> · tenant {tenant}</>}
        </span>
      </td>
      <td class="cell-names" data-label="Bundle" {...ROLE.cell}>
        {bundle === undefined ? (
          <span class="dim">none</span>
        ) : (
          <span>
            {bundle.version} <StateBadge state={bundle.state} />
            {bundle.fault !== undefined && (
              <span class="dim">
                {" "}
                <Text value={bundle.fault} max={20} />
              </span>
            )}
          </span>
        )}
      </td>
      <td data-label="Program" {...ROLE.cell}>
        {version === undefined ? <span class="dim">unknown</span> : <Text value={version} max={40} />}
      </td>
      <td data-label="Configuration" {...ROLE.cell}>
        {policyVersion === undefined ? (
          <span class="dim">unknown</span>
        ) : (
          <code>
            <Text value={policyVersion.slice(0, DIGITS_SHOWN)} />
          </code>
        )}
      </td>
      <td data-label="Last contact" {...ROLE.cell}>
        {connected ? <Badge tone="good">connected</Badge> : <Ago iso={lastContact} />}
      </td>
    </tr>
  );
}
