import type { VNode } from "preact";
import type { TenantListing, TenantShown } from "../../../core/api/tenants.ts";
import { Ago, Badge } from "../parts.tsx";
import { Columns, ROLE, Section, Unread, useRead } from "../records.tsx";
import { permissions } from "../session.ts";
import { Text } from "../text.tsx";
import { compareNames, counted } from "../words.ts";

interface TenantsProps {
  readonly count: number;
  /** Changes when the list is to be read again. */
  readonly reading: number;
}

/** Shows the tenants of the service to its operators. */
export function Tenants({ count, reading }: TenantsProps): VNode {
  return (
    <Section id="tenants" title="Tenants">
      {permissions.value.has("tenants:read") ? (
        <List key={reading} />
      ) : (
        <p class="dim">
          {counted(count, "tenant")}. Listing them needs the permission <code>tenants:read</code>.
        </p>
      )}
    </Section>
  );
}

function List(): VNode {
  const { read, again } = useRead<TenantListing>("/tenants");
  if (read.value === undefined) return <Unread read={read} again={again} />;
  return (
    <table class="records long" {...ROLE.table}>
      <caption class="sr-only">Tenants of this service</caption>
      <Columns
        titles={["Tenant", "Calls", "In progress", "Tools", "Audit", "Configuration"]}
        numbers={["In progress", "Tools"]}
        classes={{ Tenant: "cell-lead" }}
      />
      <tbody {...ROLE.group}>
        {inOrder(read.value.tenants).map((tenant) => (
          <Row key={tenant.name} tenant={tenant} />
        ))}
      </tbody>
    </table>
  );
}

/** Puts the tenants that need an operator's attention first. */
function inOrder(tenants: readonly TenantShown[]): readonly TenantShown[] {
  const isFine = ({ audit, halted, configuration }: TenantShown): boolean =>
    audit === "ok" && !halted && (configuration?.problems ?? 0) === 0;
  return tenants.toSorted(
    (one, other) => Number(isFine(one)) - Number(isFine(other)) || compareNames(one.name, other.name),
  );
}

function Row({
  tenant: { name, tools, callsInFlight, audit, halted, configuration },
}: {
  readonly tenant: TenantShown;
}): VNode {
  return (
    <tr {...ROLE.row}>
      <td class="cell-lead" {...ROLE.cell}>
        <strong>
          <Text value={name} max={40} />
        </strong>
      </td>
      <td data-label="Calls" {...ROLE.cell}>
        {halted ? <Badge tone="bad">all halted</Badge> : "accepted"}
      </td>
      <td class="cell-number" data-label="In progress" {...ROLE.cell}>
        {callsInFlight.toLocaleString()}
      </td>
      <td class="cell-number" data-label="Tools" {...ROLE.cell}>
        {tools.toLocaleString()}
      </td>
      <td data-label="Audit" {...ROLE.cell}>
        <Badge tone={audit === "ok" ? "good" : "bad"}>{audit}</Badge>
      </td>
      <td data-label="Configuration" {...ROLE.cell}>
        {configuration === undefined ? (
          "as at the start"
        ) : (
          <span>
            number {configuration.generation}, <Ago iso={configuration.since} />{" "}
            {configuration.problems > 0 && (
              <Badge tone="bad">last reload refused, {counted(configuration.problems, "problem")}</Badge>
            )}
          </span>
        )}
      </td>
    </tr>
  );
}
