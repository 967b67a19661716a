import type { VNode } from "preact";
import type { QuotaListing } from "../../../core/api/quotas.ts";
import { POLICY } from "../meanings.tsx";
import { hrefOf } from "../route.ts";
import { permissions } from "../session.ts";
import { Text } from "../text.tsx";

/** Names the quotas that are unused. The settings of each quota say which calls it applies to. */
export function UnusedQuotas({ quotas, use }: Pick<QuotaListing, "quotas" | "use">): VNode | null {
  const unused = quotas.filter(({ name }) => use.every(({ quota }) => quota !== name));
  if (unused.length === 0) return null;
  return (
    <p class="help">
      Nothing used of <Text value={unused.map(quotaInWords).join(", ")} max={300} />.{" "}
      {permissions.value.has("configuration:read") && <a href={hrefOf(POLICY)}>What they count</a>}
    </p>
  );
}

function quotaInWords({ name, calls, bytes, cost, window }: QuotaListing["quotas"][number]): string {
  const limits = Object.entries({ calls, bytes, cost }).flatMap(([unit, most = 0]) =>
    most > 0 ? [`${most.toLocaleString()} ${unit}`] : [],
  );
  return `${name} (${limits.join(", ")} a ${window})`;
}
