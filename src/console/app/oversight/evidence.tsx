import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import type { ExporterListing, ExporterShown, KeyListing } from "../../../core/api/audit.ts";
import { type ApiError, request } from "../api.ts";
import { BEHIND_SECONDS_MAX } from "../home/attention.ts";
import { Ago, Badge, Facts, Heading, localTime, Problem } from "../parts.tsx";
import { Columns, Command, codeRow, ROLE, Scrolling, Section, useRead } from "../records.tsx";
import { whenBack } from "../session.ts";
import { announce, errorOf, type PageContent } from "../state.ts";
import { Text } from "../text.tsx";
import { bytesText, counted, OFFLINE, timeLeft } from "../words.ts";

/** The integrity of the audit: its chain, its checkpoints, and where damage begins; and the copies of it that leave the machine. */

interface Damage {
  readonly kind: string;
  readonly file: string;
  readonly line: number;
  readonly seq?: number;
  readonly message: string;
}

interface StreamShown {
  readonly stream: string;
  readonly files: number;
  readonly lines: number;
  readonly linesBefore: number;
  readonly lastSeq?: number;
  readonly prunedTo?: number;
  readonly compared: number;
  /** Name of the log in its checkpoints. */
  readonly origin?: string;
  /** The lines that the signed checkpoints cover. */
  readonly covered?: { readonly size: number };
  readonly damage?: Damage;
}

interface Status {
  readonly ok?: boolean;
  readonly verifiedAt?: string;
  readonly more: boolean;
  readonly progress?: { readonly bytes: number; readonly bytesInAll: number };
  readonly fault?: string;
  readonly streams?: readonly StreamShown[];
  readonly checkpoints?: { readonly checkpoints: number; readonly signed: number; readonly damage?: Damage };
  readonly workers?: readonly { readonly log: string; readonly ok?: boolean }[];
  readonly logProblems?: readonly { readonly kind: string; readonly log: string; readonly message: string }[];
}

const status = signal<Status | undefined>(undefined);
const failure = signal<ApiError | undefined>(undefined);
const isVerifying = signal(false);
/** Each request verifies for at most a second. */
const REQUESTS_MAX = 3_600;
let stop = new AbortController();

/** Verifies until the whole log has been read once, or the page is left. */
async function verify(): Promise<void> {
  stop.abort();
  const own = new AbortController();
  stop = own;
  isVerifying.value = true;
  failure.value = undefined;
  try {
    for (let requests = 0; requests < REQUESTS_MAX && !own.signal.aborted; requests += 1) {
      const read = await request<Status>("GET", "/audit/verify", { signal: own.signal });
      status.value = read;
      if (!read.more) break;
    }
    const ok = status.value?.ok;
    if (!own.signal.aborted && ok !== undefined) announce(ok ? "The audit is intact." : "The audit is not intact.");
  } catch (error) {
    if (!own.signal.aborted) failure.value = errorOf(error);
  } finally {
    if (stop === own) isVerifying.value = false;
  }
}

function EvidenceView(): VNode {
  useEffect(() => {
    void verify();
    const stopWaiting = whenBack(() => failure.value?.code === OFFLINE && void verify());
    return () => {
      stopWaiting();
      stop.abort();
    };
  }, []);
  const now = status.value;
  return (
    <div class="sheet story">
      <header class="sheet-head">
        <Heading>Evidence</Heading>
        <button type="button" onClick={() => window.print()}>
          Print
        </button>
        <button type="button" disabled={isVerifying.value} onClick={() => void verify()}>
          {isVerifying.value ? "Verifying …" : "Verify again"}
        </button>
      </header>
      {failure.value !== undefined && <Problem error={failure.value} onRetry={() => void verify()} />}
      {now !== undefined && <Verdict status={now} />}
      {now?.progress !== undefined && now.more && (
        <p class="verify-progress">
          <progress max={now.progress.bytesInAll} value={now.progress.bytes} aria-label="Verified" />
          {bytesText(now.progress.bytes)} of {bytesText(now.progress.bytesInAll)}
        </p>
      )}
      {now?.streams?.map((stream) => (
        <Stream key={stream.stream} shown={stream} />
      ))}
      {now?.streams !== undefined && <p class="help">{SEQ_WORDS}</p>}
      {now?.checkpoints !== undefined && (
        <Section id="checkpoints" title="Checkpoints">
          <Facts
            rows={[
              ["Checkpoints", String(now.checkpoints.checkpoints)],
              ["Signed by our key", String(now.checkpoints.signed)],
            ]}
          />
          {now.checkpoints.checkpoints === 0 && (
            <p class="callout tone-warn">Nothing is signed yet: the service signs about a second after a line.</p>
          )}
          {now.checkpoints.damage !== undefined && <Damaged damage={now.checkpoints.damage} />}
        </Section>
      )}
      <Offline />
      <Exports />
    </div>
  );
}

/** The key, and how somebody who trusts neither this service nor its disk checks a copy of the log. */
function Offline(): VNode {
  const { read, again } = useRead<KeyListing>("/audit/keys");
  const { value, error } = read;
  return (
    <Section id="offline" title="Verify it elsewhere">
      {error !== undefined && <Problem error={error} onRetry={again} />}
      {value?.keys.length === 0 && (
        <p class="callout tone-warn">
          Nothing is signed: whoever can write the disk can make the log again. Set <code>audit.checkpointKeyFile</code>
          .
        </p>
      )}
      {value?.keys.map(({ verifierKey, sha256 }) => (
        <div key={sha256} class="offline-key">
          <Facts
            rows={[
              codeRow("Key", verifierKey),
              ["Fingerprint", <code key="sha256">{sha256.match(/.{1,8}/g)?.join(" ")}</code>],
            ]}
          />
          <p>
            An auditor copies the folder of the audit, and verifies the copy without this service. The key has to come
            from whoever made it: compare its fingerprint (SHA-256 of the public key in DER).
          </p>
          <Command
            label="verify the copy"
            value={`stc audit verify --dir ./copy-of-the-audit --key '${verifierKey}'`}
          />
          <p class="help">The fingerprint of a public key in PEM:</p>
          <Command
            label="print the fingerprint of a key"
            value="openssl pkey -pubin -in audit-public.pem -outform DER | sha256sum"
          />
        </div>
      ))}
    </Section>
  );
}

function Verdict({ status }: { readonly status: Status }): VNode {
  const { ok, verifiedAt, fault, workers = [], logProblems = [] } = status;
  if (ok === undefined) return <p class="callout">The first complete check is in progress.</p>;
  const problems = [
    ...workers.flatMap(({ log, ok: isSound }) => (isSound === false ? `${log} is damaged` : [])),
    ...logProblems.map(({ kind, log, message }) => `${kind}: ${log}: ${message}`),
  ];
  return (
    <div class={`callout tone-${ok ? "good" : "bad"}`} role="status">
      <p>
        <strong>{ok ? "The audit is intact." : "The audit is not intact."}</strong>
      </p>
      {verifiedAt !== undefined && <p class="dim">Last complete check: {localTime(verifiedAt)}</p>}
      {fault !== undefined && (
        <p>
          <Text value={fault} max={600} />
        </p>
      )}
      {problems.map((problem) => (
        <p key={problem}>
          <Text value={problem} max={600} />
        </p>
      ))}
    </div>
  );
}

function Exports(): VNode {
  const { read, again } = useRead<ExporterListing>("/audit/exporters");
  const { value, error } = read;
  return (
    <Section id="exports" title="Export">
      {error !== undefined && <Problem error={error} onRetry={again} />}
      {value?.exporters.length === 0 && (
        <p class="dim">
          Nothing is exported: whoever loses this disk loses the audit. Set <code>audit.export</code>.
        </p>
      )}
      {value !== undefined && value.exporters.length > 0 && (
        <>
          <Scrolling label="Exporters of the audit">
            <table class="records wide" {...ROLE.table}>
              <caption class="sr-only">Exporters of the audit</caption>
              <Columns titles={["Exporter", "State", "Last accepted", "Backlog", "Sent", "Rejected"]} />
              <tbody {...ROLE.group}>
                {value.exporters.map((one) => (
                  <ExporterRow key={`${one.exporter} ${one.stream}`} shown={one} />
                ))}
              </tbody>
            </table>
          </Scrolling>
          <p class="dim help">
            Counted since the start of the service. Its log says why an exporter fails; rejected lines are kept next to
            the audit.
          </p>
          <p>
            <button type="button" onClick={again}>
              Refresh
            </button>
          </p>
        </>
      )}
    </Section>
  );
}

function backlogText({ bytesBehind, secondsBehind }: ExporterShown): string {
  if (bytesBehind === null) return "unknown";
  if (bytesBehind === 0) return "none";
  return `${bytesText(bytesBehind)}, ${timeLeft((secondsBehind ?? 0) * 1_000)} old`;
}

function ExporterRow({ shown }: { readonly shown: ExporterShown }): VNode {
  const { exporter, stream, lastAcceptedAt, sentLines, deadLines } = shown;
  return (
    <tr {...ROLE.row}>
      <td {...ROLE.cell}>
        <Text value={exporter} max={80} /> <span class="dim">{(STREAMS[stream] ?? stream).toLowerCase()}</span>
      </td>
      <td {...ROLE.cell}>
        <ExporterState shown={shown} />
      </td>
      <td {...ROLE.cell}>{lastAcceptedAt === null ? "not since the start" : <Ago iso={lastAcceptedAt} />}</td>
      <td {...ROLE.cell}>{backlogText(shown)}</td>
      <td {...ROLE.cell}>{sentLines}</td>
      <td {...ROLE.cell}>{deadLines === 0 ? "0" : <Badge tone="warn">{deadLines}</Badge>}</td>
    </tr>
  );
}

function ExporterState({
  shown: { failingSince, bytesBehind, secondsBehind },
}: {
  readonly shown: ExporterShown;
}): VNode {
  if (failingSince !== null) {
    return (
      <>
        <Badge tone="bad">failing</Badge> since {localTime(failingSince)}
      </>
    );
  }
  if (bytesBehind === null) return <Badge tone="bad">the log cannot be read</Badge>;
  return (secondsBehind ?? 0) > BEHIND_SECONDS_MAX ? (
    <Badge tone="warn">behind</Badge>
  ) : (
    <Badge tone="good">up to date</Badge>
  );
}

const STREAMS: Readonly<Record<string, string>> = { calls: "Calls", journal: "Journal" };

function Stream({ shown }: { readonly shown: StreamShown }): VNode {
  const { stream, files, lines, linesBefore, lastSeq, prunedTo, compared, origin, covered, damage } = shown;
  return (
    <Section id={`stream-${stream}`} title={STREAMS[stream] ?? stream}>
      <Facts
        rows={[
          [
            "Lines in the chain",
            `${lines}${lastSeq === undefined ? "" : ` (seq ${lastSeq - lines + 1} to ${lastSeq})`}`,
          ],
          ["Files", String(files)],
          covered === undefined || lastSeq === undefined
            ? undefined
            : ["Signed up to", `seq ${Math.min(covered.size - 1, lastSeq)}`],
          codeRow("Name", origin),
          ["Compared", `with ${counted(compared, "checkpoint")}`],
          prunedTo === undefined ? undefined : ["Deleted by retention", `lines before seq ${prunedTo}, as recorded`],
          linesBefore === 0 ? undefined : ["Before the chain", counted(linesBefore, "line")],
        ]}
      />
      {damage !== undefined && <Damaged damage={damage} />}
    </Section>
  );
}

/** The numbering of lines, everywhere the same. */
const SEQ_WORDS =
  "Lines are numbered by seq, which begins at 0 in each stream: here, in a call's story, in proofs and in stc audit verify.";

function Damaged({ damage: { kind, file, line, seq, message } }: { readonly damage: Damage }): VNode {
  return (
    <p class="callout tone-bad">
      <strong>
        <Text value={kind} max={60} />
      </strong>
      : <Text value={file} max={200} />, line {line}
      {seq === undefined ? "" : ` (seq ${seq})`}: <Text value={message} max={600} />
    </p>
  );
}

export const evidencePage: PageContent = {
  view: EvidenceView,
  run: () => () => {
    stop.abort();
    status.value = undefined;
  },
};
