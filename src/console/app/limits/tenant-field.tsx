import type { VNode } from "preact";
import { useHalts } from "../halting.tsx";

/** Asks whose calls are halted, where the service has tenants. */
export function TenantField(): VNode | null {
  const tenants = useHalts().value?.tenants ?? [];
  if (tenants.length === 0) return null;
  return (
    <div class="field">
      <label for="halt-tenant">Whose calls</label>
      <select id="halt-tenant" name="tenant">
        <option value="">the service's own, and those of every tenant</option>
        {tenants.map((name) => (
          <option key={name} value={name}>
            those of tenant {name} only
          </option>
        ))}
      </select>
      <p class="help">Operators of a tenant see why its calls are halted where the halt names the tenant.</p>
    </div>
  );
}

/** Returns the tenant that the form names. */
export function tenantIn(written: FormData): { readonly tenant?: string } {
  const tenant = String(written.get("tenant") ?? "");
  return tenant === "" ? {} : { tenant };
}
