import type { VNode } from "preact";
import { nameInSentence } from "../../core/printable.ts";
import { Party } from "./parts.tsx";
import { hrefOf } from "./route.ts";
import { permissions } from "./session.ts";
import { Text } from "./text.tsx";

/** A caller, as the audit and halts identify it. An unauthenticated one has no issuer. */
export interface CallerName {
  readonly sub: string;
  readonly iss?: string | undefined;
}

/** A caller with a page of its own. */
export interface AgentName {
  readonly sub: string;
  readonly iss: string;
}

/** Name of the page of all callers, and the first segment of the page of each. */
export const AGENTS = "agents";

/** Returns the route of a caller's page; undefined for a caller that has none. */
export function agentHref({ sub, iss }: CallerName): string | undefined {
  const hasPage = iss !== undefined && iss !== "" && sub !== "" && iss.isWellFormed() && sub.isWellFormed();
  return hasPage ? hrefOf(AGENTS, [iss, sub]) : undefined;
}

const NAME_CHARACTERS_MAX = 120;
/** A name that fits a column is not broken at its hyphens. */
const WHOLE_CHARACTERS_MAX = 20;

interface CallerLinkProps extends CallerName {
  /** Leaves the issuer out, in lists. */
  readonly isShort?: boolean;
}

/** The name of a caller, with a link to its page for those who may read the audit. */
export function CallerLink({ sub, iss, isShort = false }: CallerLinkProps): VNode {
  const href = permissions.value.has("audit:read") ? agentHref({ sub, iss }) : undefined;
  const name = nameInSentence(sub);
  if (href === undefined) return isShort ? <Text value={name} max={60} /> : <Party sub={sub} iss={iss} />;
  return (
    <span class="party">
      <a class={name.length <= WHOLE_CHARACTERS_MAX ? "caller whole" : "caller"} href={href}>
        <Text value={name} max={isShort ? 60 : NAME_CHARACTERS_MAX} isFixed />
      </a>
      {!isShort && (
        <span class="issuer">
          {" "}
          of <Text value={iss ?? ""} max={NAME_CHARACTERS_MAX} />
        </span>
      )}
    </span>
  );
}

/** The actor that holds a caller's token, with those that it acts through. */
export function Actor({ act: [actor = "", ...others] }: { readonly act: readonly string[] }): VNode {
  return (
    <>
      <strong>
        <Text value={nameInSentence(actor)} max={NAME_CHARACTERS_MAX} />
      </strong>
      {others.length > 0 && (
        <>
          {" "}
          (called by <Text value={others.map(nameInSentence).join(", by ")} max={200} />)
        </>
      )}
    </>
  );
}
