import type { VNode } from "preact";
import type { ApprovalQuorum } from "../../../core/api/approvals.ts";
import { Ago, Party } from "../parts.tsx";
import { Text } from "../text.tsx";
import type { ShownRequest } from "./model.ts";

/** The approvers of a request, and those who still have to approve; nothing where one approver is enough. */
export function Votes({ request: { quorum } }: { readonly request: ShownRequest }): VNode | null {
  if (quorum === undefined) return null;
  return (
    <section aria-labelledby="votes-title">
      <h2 id="votes-title">Who has to approve</h2>
      <QuorumShown quorum={quorum} />
    </section>
  );
}

function QuorumShown({ quorum: { policies, reasonRequired } }: { readonly quorum: ApprovalQuorum }): VNode {
  return (
    <>
      {policies.map(({ name, stages }) => (
        <div key={name} class="policy">
          <h3>
            <Text value={name} max={120} />
          </h3>
          <ol class="stages">
            {stages.map((stage) => (
              <li key={stage.name} class={`stage ${stage.state}`}>
                <span class="stage-count">
                  {stage.have}/{stage.needed}
                </span>
                <span>
                  <strong>
                    <Text value={stage.name} max={120} />
                  </strong>{" "}
                  <span class="dim">{STAGE_WORDS[stage.state] ?? stage.state}</span>
                  {stage.voters.map((voter) => (
                    <span key={`${voter.iss} ${voter.sub}`} class="voter">
                      ✓ <Party sub={voter.sub} iss={voter.iss} /> <Ago iso={voter.at} />
                      {voter.reason !== undefined && (
                        <>
                          : <Text value={voter.reason} max={600} />
                        </>
                      )}
                    </span>
                  ))}
                  {stage.deciders !== undefined && stage.state !== "complete" && <Deciders deciders={stage.deciders} />}
                </span>
              </li>
            ))}
          </ol>
        </div>
      ))}
      {reasonRequired !== "never" && (
        <p class="aside">
          {reasonRequired === "always" ? "Every decision needs a reason." : "A denial needs a reason."}
        </p>
      )}
    </>
  );
}

const STAGE_WORDS: Readonly<Record<string, string>> = {
  open: "waits for approvals",
  complete: "complete",
  later: "comes later",
};

function Deciders({
  deciders: { permissions, subjects },
}: {
  readonly deciders: NonNullable<ApprovalQuorum["policies"][number]["stages"][number]["deciders"]>;
}): VNode {
  return (
    <span class="deciders dim">
      {permissions.length > 0 && (
        <>
          holders of <Text value={permissions.join(", ")} max={300} />
        </>
      )}
      {subjects !== undefined && (
        <>
          {permissions.length > 0 && ", "}
          one of <Text value={subjects.map(({ sub }) => sub).join(", ")} max={300} />
        </>
      )}
    </span>
  );
}
