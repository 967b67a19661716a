import { isDeepStrictEqual } from "node:util";
import type { ToolDraft } from "../../core/target-kind.ts";
import type { Tool } from "../../core/types.ts";
import { type Made, madeManifest, manifestText, proposedPermission, shownText } from "./manifest-text.ts";

/** Returns whether the tool's target has every member of the draft's. */
export function callsSame({ target }: Pick<Tool, "name" | "target">, draft: ToolDraft, system: string): boolean {
  const members: Readonly<Record<string, unknown>> = { ...target };
  return (
    target.system === system &&
    Object.entries(draft.target).every(([key, part]) =>
      isDeepStrictEqual({ ...(members[key] as object), ...(part as object) }, members[key]),
    )
  );
}

const DESCRIPTION_CHARACTERS_MAX = 1_000;

interface DraftNames {
  /** Name of the tool. */
  readonly name: string;
  readonly system: string;
  /** The command that writes it. */
  readonly command: string;
}

/** Returns the text of a draft's manifest if it can be loaded. */
export function madeDraft(
  { name, system, command }: DraftNames,
  draft: ToolDraft & { readonly accepted?: boolean },
): Made {
  if (draft.problem !== undefined) return { problem: draft.problem };
  const { description, classification, target, input, output, hints, fields, accepted = false } = draft;
  const text = manifestText({
    name,
    classification,
    input,
    output,
    accepted,
    fields,
    description: shownText(description, DESCRIPTION_CHARACTERS_MAX),
    permissions: [proposedPermission(system, classification)],
    target: { system, ...target },
    notes: [
      `Written by ${command}. Judge the classification and the permission, then ${accepted ? "read" : "write"} the output policy.`,
      ...hints,
    ],
  });
  return madeManifest(text);
}
