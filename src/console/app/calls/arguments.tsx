import type { VNode } from "preact";
import type { ToolDetails } from "../../../core/api/inventory.ts";
import { NOT_LOGGED } from "../../../core/audit-fields.ts";
import { members } from "../api.ts";
import { jsonLines, useRead } from "../records.tsx";
import { hrefOf } from "../route.ts";
import { permissions } from "../session.ts";
import { Block, Text } from "../text.tsx";
import { callOf, type Line } from "./model.ts";

/** The arguments of a call as far as the log holds them, and which ones it does not hold, and why. */

export function Arguments({ line }: { readonly line: Line }): VNode {
  const { tool, decision } = callOf(line);
  const { args, truncated } = members(line["request"]);
  const all = Object.entries(members(args));
  const omitted = all.filter(([, value]) => hasOmission(value)).map(([name]) => name);
  const logged = Object.fromEntries(all.filter(([, value]) => value !== NOT_LOGGED));
  const isNone = all.length === 0 && truncated !== true;
  return (
    <>
      {Object.keys(logged).length > 0 && <Block value={jsonLines(logged)} label="Arguments" />}
      {truncated === true && (
        <p class="omission">
          The arguments were too long for a line of the log, and are cut here. Their hash, under the proof, covers all
          of them.
        </p>
      )}
      {isNone && (
        <p class={decision === "ALLOWED" ? "dim" : "omission"}>
          {decision === "ALLOWED"
            ? "It had no arguments."
            : "It ended before its arguments were accepted: none is in the log."}
        </p>
      )}
      {omitted.length > 0 && <Omitted tool={tool} names={omitted} />}
    </>
  );
}

/** Returns whether a value, or a part of it, is not in the log. */
function hasOmission(value: unknown): boolean {
  if (value === NOT_LOGGED) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasOmission);
}

interface OmittedProps {
  readonly tool: string | undefined;
  readonly names: readonly string[];
}

function Omitted(props: OmittedProps): VNode {
  const { tool } = props;
  return tool !== undefined && permissions.value.has("tools:read") ? (
    <OmittedByRules {...props} tool={tool} />
  ) : (
    <OmittedList {...props} />
  );
}

type InputPolicy = ToolDetails["inputPolicy"];

/** Adds the reasons that the tool's manifest gives, as it is now. */
function OmittedByRules({ tool, names }: OmittedProps & { readonly tool: string }): VNode {
  const { read } = useRead<ToolDetails>(`/catalog/${encodeURIComponent(tool)}`);
  return <OmittedList tool={tool} names={names} rules={read.value?.inputPolicy} />;
}

function OmittedList({ tool, names, rules }: OmittedProps & { readonly rules?: InputPolicy | undefined }): VNode {
  const setting = <code>inputPolicy</code>;
  return (
    <div class="omission">
      <p>
        Not in the log, or only in part. The log holds what{" "}
        {rules === undefined || tool === undefined ? setting : <a href={hrefOf("tools", [tool])}>{setting}</a>} in the
        tool's manifest allows:
      </p>
      <ul class="notes">
        {names.map((name) => (
          <li key={name}>
            <code>
              <Text value={name} max={120} />
            </code>
            {rules !== undefined && <Reason rules={rules.filter(({ field }) => isOf(field, name))} />}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Returns whether a rule is about an argument or a part of it. */
function isOf(field: string, name: string): boolean {
  return field === name || field.startsWith(`${name}.`) || field.startsWith(`${name}[`);
}

function Reason({ rules }: { readonly rules: InputPolicy }): VNode {
  const [rule] = rules.filter(({ action }) => action !== "allow");
  if (rule === undefined) return <>: no rule allows {rules.length > 0 ? "all of it" : "it"}</>;
  return (
    <>
      : the rule says {rule.action}
      {rule.reason !== undefined && (
        <>
          , because: <Text value={rule.reason} max={300} />
        </>
      )}
    </>
  );
}
