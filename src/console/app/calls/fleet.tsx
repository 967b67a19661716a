import type { VNode } from "preact";
import type { AuditSource, FleetState } from "../../../core/api/audit.ts";
import type { ApiError } from "../api.ts";
import { localTime, Problem } from "../parts.tsx";
import { hrefOf } from "../route.ts";
import { Text } from "../text.tsx";
import { counted } from "../words.ts";

/** Which logs an answer is from: those of all replicas, from the audit store, or this replica's own. */

/** Members of the audit's answers that say which logs they are from. */
export interface Sourced {
  readonly source?: AuditSource;
  readonly fleet?: FleetState;
}

/** Parameter of the URL, as the service has it. */
export const SOURCE = "source";

export function isOwnOnly(query: URLSearchParams): boolean {
  return query.get(SOURCE) === "replica";
}

/** Returns whether a log is behind. */
export function mayLackLines({ fleet }: Sourced): boolean {
  return fleet?.logs.some(({ isBehind }) => isBehind) === true;
}

/** Logs that are named when they are behind. */
const NAMED_MAX = 5;

interface SourceLineProps {
  readonly answer: Sourced;
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

/** Says which logs the answer is from and how complete it is. Nothing where the service can answer about itself alone. */
export function SourceLine({ answer: { source, fleet }, path, query }: SourceLineProps): VNode | null {
  if (source === "fleet" && fleet !== undefined)
    return <FleetLine fleet={fleet} ownHref={hrefWith("replica", path, query)} />;
  if (!isOwnOnly(query)) return null;
  return (
    <p class="source-line callout tone-plain">
      The lines of this replica alone. <a href={hrefWith(undefined, path, query)}>Show all replicas</a>
    </p>
  );
}

function FleetLine({ fleet, ownHref }: { readonly fleet: FleetState; readonly ownHref: string }): VNode {
  const { completeUntil, logs, logsLeftOut } = fleet;
  const behind = logs.filter(({ isBehind }) => isBehind);
  const count = logs.length + logsLeftOut;
  const whole = count - behind.length;
  return (
    <div class={`source-line callout tone-${behind.length > 0 ? "warn" : "plain"}`}>
      <p>
        All replicas:{" "}
        {completeUntil === null ? (
          <>no log is known to be complete.</>
        ) : (
          <>
            complete until <time dateTime={completeUntil}>{localTime(completeUntil)}</time> on{" "}
            {whole === count ? counted(count, "log") : `${whole} of ${counted(count, "log")}`}.
          </>
        )}{" "}
        <a href={ownHref}>This replica alone</a>
      </p>
      {behind.length > 0 && (
        <p>
          Lines may be missing of{" "}
          {behind.slice(0, NAMED_MAX).map(({ log, stream, instance, completeUntil: until }, at) => (
            <span key={`${log} ${stream}`}>
              {at > 0 && ", "}
              <strong>
                <Text value={instance === "" ? log : instance} max={80} />
              </strong>{" "}
              ({stream}, {until === null ? "never complete" : `complete until ${localTime(until)}`})
            </span>
          ))}
          {behind.length > NAMED_MAX && ` and ${behind.length - NAMED_MAX} more`}.
        </p>
      )}
    </div>
  );
}

interface FailedProps {
  readonly error: ApiError;
  readonly path: readonly string[];
  readonly query: URLSearchParams;
  readonly onRetry: () => void;
}

/** An error of the audit; of one about all replicas, with a way to this replica's own lines. */
export function Failed({ error, path, query, onRetry }: FailedProps): VNode {
  return (
    <>
      <Problem error={error} onRetry={onRetry} />
      {error.details["source"] === "fleet" && (
        <p>
          <a class="button" href={hrefWith("replica", path, query)}>
            Show this replica's own lines
          </a>
        </p>
      )}
    </>
  );
}

function hrefWith(
  source: AuditSource | undefined,
  [page = "", ...rest]: readonly string[],
  query: URLSearchParams,
): string {
  const changed = new URLSearchParams(query);
  changed.delete(SOURCE);
  if (source !== undefined) changed.set(SOURCE, source);
  return hrefOf(page, rest, changed);
}
