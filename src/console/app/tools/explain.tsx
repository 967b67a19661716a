import { useSignal } from "@preact/signals";
import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import type { Explanation } from "../../../core/api/explain.ts";
import { statementSentences } from "../../../core/statement-words.ts";
import { BOUNDED_TEXT_LIMITS, parseStrictJson } from "../../../core/strict-json.ts";
import { type ApiError, request } from "../api.ts";
import { Rules } from "../meanings.tsx";
import { Badge, Facts, Problem } from "../parts.tsx";
import { codeRow, jsonLines, Names, Section } from "../records.tsx";
import { permissions } from "../session.ts";
import { errorOf } from "../state.ts";
import { Block, Text } from "../text.tsx";

/** The verdicts of all policies about a call that is not made: `POST /explain`. */

const WORDS: Readonly<Record<string, readonly [words: string, tone: "good" | "bad" | "warn" | "plain"]>> = {
  allow: ["would run", "good"],
  ask: ["would ask a person", "plain"],
  deny: ["would be refused", "bad"],
};

/** Asks what would happen to a call of this tool. Shown to those who may ask. */
export function WouldHappen({ tool }: { readonly tool: string }): VNode | null {
  const answer = useSignal<Explanation | ApiError | string | undefined>(undefined);
  const latest = useRef(0);
  if (!permissions.value.has("policy:explain")) return null;
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    const given = (name: string): string => String(form.get(name) ?? "").trim();
    const args = parsed(given("args"));
    if (args === undefined) {
      answer.value = "The arguments are not a JSON object.";
      return;
    }
    const [held, session] = [given("permissions"), given("session")];
    const stated = {
      ...(held !== "" && { permissions: held.split(/[\s,]+/) }),
      ...(session !== "" && { session }),
    };
    const body = { tool, args, sub: given("sub"), ...stated };
    latest.current += 1;
    const own = latest.current;
    const read = await request<Explanation>("POST", "/explain", { body }).catch(errorOf);
    if (own === latest.current) answer.value = read;
  };
  return (
    <Section id="explain" title="What would happen">
      <form
        onSubmit={(event) => void submit(event)}
        onInput={() => {
          // An answer about other values than those in the form would mislead.
          latest.current += 1;
          answer.value = undefined;
        }}
      >
        <div class="field">
          <label for="explain-sub">Caller</label>
          <input id="explain-sub" name="sub" required maxLength={256} placeholder="agent-7" />
        </div>
        <div class="field">
          <label for="explain-permissions">Permissions</label>
          <input id="explain-permissions" name="permissions" placeholder="those that the configuration gives it" />
        </div>
        <div class="field">
          <label for="explain-session">Session</label>
          <input id="explain-session" name="session" maxLength={256} placeholder="none" />
        </div>
        <div class="field">
          <label for="explain-args">Arguments as JSON</label>
          <textarea id="explain-args" name="args" rows={3} defaultValue="{}" />
        </div>
        <button type="submit">Ask the policies</button>
        <p class="help">Nothing runs, and nobody is asked.</p>
      </form>
      <div aria-live="polite">
        <Answer answer={answer.value} />
      </div>
    </Section>
  );
}

function parsed(text: string): unknown {
  try {
    const value = parseStrictJson(text === "" ? "{}" : text, BOUNDED_TEXT_LIMITS);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function Answer({ answer }: { readonly answer: Explanation | ApiError | string | undefined }): VNode | null {
  if (answer === undefined) return null;
  if (typeof answer === "string") return <p class="callout tone-bad">{answer}</p>;
  if (answer instanceof Error) return <Problem error={answer} />;
  const {
    verdict,
    code,
    statements,
    permissions: needed,
    risk,
    rules,
    dataFlow,
    plan,
    noPlan,
    changes,
    policyVersion,
  } = answer;
  const [words, tone] = WORDS[verdict] ?? ["cannot be said", "warn"];
  return (
    <>
      <p>
        <Badge tone={tone}>{words}</Badge> {code !== undefined && <code>{code}</code>}
      </p>
      <ul class="reasons">
        {statements.map((statement, at) => (
          <li key={at}>
            <Badge tone={statement.verdict === "deny" ? "bad" : "plain"}>{statement.verdict}</Badge>
            <span>
              <strong>
                <Text value={statement.point} max={80} />
              </strong>{" "}
              {statement.stage.toLowerCase()} <Text value={statementSentences(statement).join(" ")} max={600} />
            </span>
          </li>
        ))}
      </ul>
      {changes.length > 0 && (
        <>
          <p>For the call to run by itself:</p>
          <ul class="notes">
            {changes.map(({ names, text }, at) => (
              <li key={at}>
                <Names names={names} /> <Text value={text} max={300} />
              </li>
            ))}
          </ul>
        </>
      )}
      <Facts
        rows={[
          ["Permissions needed", <Names key="needed" names={needed.required} none="none" />],
          ["Missing", <Names key="missing" names={needed.missing} none="none" />],
          risk === undefined ? undefined : ["Risk", risk],
          dataFlow && [
            "The caller has read",
            <Names key="read" names={dataFlow.labels ?? ["not known"]} none="nothing" />,
          ],
          dataFlow?.sources && ["Values appeared in", <Sources key="sources" sources={dataFlow.sources} />],
          rules.length === 0 ? undefined : ["Rules that matched", <Rules key="rules" names={rules} />],
          codeRow("Configuration", policyVersion),
        ]}
      />
      {plan === undefined ? (
        <p class="dim">
          No plan: <Text value={noPlan ?? ""} max={300} />
        </p>
      ) : (
        <Block value={jsonLines(plan)} label="What an approver would see" />
      )}
    </>
  );
}

function Sources({ sources = [] }: NonNullable<Explanation["dataFlow"]>): VNode {
  return (
    <ul class="notes">
      {sources.map(({ argument, tool, field, labels, trusted }, at) => (
        <li key={at}>
          <Text
            value={`${argument}: ${tool}, field ${field}, ${trusted === true ? "trusted" : labels.join(" and ")}`}
            max={300}
          />
        </li>
      ))}
    </ul>
  );
}
