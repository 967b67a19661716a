import { expect } from "bun:test";
import { parse } from "yaml";
import { madeDraft } from "../../../src/cli/import/draft.ts";
import { loadedManifest } from "../../../src/cli/import/manifest-text.ts";
import type { AskedDrafts, ToolDraft } from "../../../src/core/target-kind.ts";
import type { Databases } from "../../../src/targets/sql/databases.ts";
import type { Loose } from "../../support/asking-service.ts";
import { ask, faultsOf, loaded } from "./support.ts";

/** Returns the drafts of the system `shop`, with those that change something. */
export async function draftsOf(databases: Databases, asked: Partial<AskedDrafts> = {}): Promise<readonly ToolDraft[]> {
  const found = await databases.drafts("shop", { statements: [], hasChanges: true, ...asked });
  if (!Array.isArray(found)) throw new Error(String(found));
  return found;
}

export function named(drafts: readonly ToolDraft[], name: string): ToolDraft {
  const draft = drafts.find((each) => each.name === name);
  if (draft === undefined) throw new Error(`there is no ${name} in ${drafts.map((each) => each.name).join(", ")}`);
  return draft;
}

/** Returns the manifest of a draft, with its `text`. */
export function manifestOf(draft: ToolDraft, accepted = true): Loose {
  const made = madeDraft({ name: "drafted", system: "shop", command: "stc import sql" }, { ...draft, accepted });
  if ("problem" in made) throw new Error(made.problem);
  return { ...parse(made.text), text: made.text };
}

/** Loads the tool of a draft, and calls it. */
export async function called(databases: Databases, draft: ToolDraft, args: object): Promise<unknown> {
  const tool = loadedManifest(manifestOf(draft).text);
  expect(await faultsOf(databases, tool)).toEqual([]);
  return ask(await loaded(databases, tool), args);
}
