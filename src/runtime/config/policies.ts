import { z } from "zod";

const NAME = /^[A-Za-z][A-Za-z0-9._-]{0,63}$/;
const POLICIES_MAX = 100;
const LISTED_MAX = 100;
const SUBJECTS_MAX = 50;
const PERMISSIONS_MAX = 16;
const STAGES_MAX = 8;
const PEOPLE_MAX = 20;
const DAY_SECONDS = 86_400;
/** Of all policies as JSON, in characters: a question keeps what it was asked under. */
const CHARACTERS_MAX = 131_072;

const spoken = z.string().regex(NAME, "must be a name of letters, digits, dot, dash, underscore");
const permission = z.string().regex(/^[\x21-\x7e]{1,128}$/, "must be a permission's name: visible ASCII, at most 128");
const listed = <T extends z.ZodType>(of: T) => z.array(of).min(1).max(LISTED_MAX);
const people = z.int().min(1).max(PEOPLE_MAX);
const seconds = z.int().min(1).max(DAY_SECONDS);

const subject = z.strictObject({
  /** The `iss` of their tokens, letter by letter. */
  issuer: z.string().min(1).max(2_048),
  /** And the `sub`. */
  subject: z.string().min(1).max(256),
});

const deciders = z.strictObject({
  /** That their token must hold, all of them; beside `approvals:decide`. */
  permissions: z.array(permission).max(PERMISSIONS_MAX).optional(),
  /** People by name; without it, whoever holds the permissions. */
  subjects: z.array(subject).min(1).max(SUBJECTS_MAX).optional(),
});

const stage = z.strictObject({
  /** What people and the journal call it. */
  name: spoken,
  deciders: deciders.prefault({}),
  /** How many of them must say yes. */
  count: people.default(1),
});

const when = z
  .strictObject({
    /** Names of tools; `*` stands for any letters. */
    tools: listed(z.string().regex(/^[a-z0-9_*]{1,64}$/, "must be a tool's name; * stands for any letters")).optional(),
    /** What kind of act the tool is. */
    categories: listed(z.enum(["read", "write", "command", "network", "ask"])).optional(),
    /** What the tool reaches, as its manifest names it. */
    systems: listed(z.string().min(1).max(128)).optional(),
    /** At least this risk. */
    risk: z.enum(["low", "medium", "high", "critical"]).optional(),
    /** That the tool requires of its callers, for some arguments or all. */
    permissions: listed(permission).optional(),
    /** How much the tool can change. */
    classifications: listed(z.enum(["read", "write", "destructive"])).optional(),
  })
  .refine((conditions) => Object.values(conditions).some((condition) => condition !== undefined), {
    message: 'must name at least one condition; tools: ["*"] means every tool',
  });

const required = z
  .strictObject({
    deciders: deciders.optional(),
    /** How many of them must say yes; 1 when it is left out. */
    count: people.optional(),
    /** In place of the two: one after another, all of them. */
    stages: z.array(stage).min(1).max(STAGES_MAX).optional(),
  })
  .superRefine(({ deciders: who, count, stages }, context) => {
    const add = (path: readonly PropertyKey[], message: string) =>
      context.addIssue({ code: "custom", path: [...path], message });
    if (stages === undefined && who === undefined && count === undefined) {
      add([], "must say who decides: deciders, count, or both; or stages");
    }
    if (stages === undefined) return;
    if (who !== undefined) add(["deciders"], "cannot stand beside stages: each stage has its own");
    if (count !== undefined) add(["count"], "cannot stand beside stages: each stage has its own");
    for (const [index, { name: own }] of stages.entries()) {
      if (stages.findIndex((other) => other.name === own) < index)
        add(["stages", index, "name"], "is taken by an earlier stage");
    }
  });

const policy = z
  .strictObject({
    /** What people and the journal call it. */
    name: spoken,
    /** Which questions it is about. Everything that is named must hold, and of a list one member. */
    when,
    /** Whose yes is needed: so many (`count`) of those (`deciders`), or several `stages` of that, one after another. */
    require: required,
    /** Whether one person counts in one stage alone. */
    distinctPeople: z.boolean().default(true),
    /** When whoever decides must say why. */
    reasonRequired: z.enum(["never", "deny", "always"]).default("never"),
    /** What a yes may cover, of what the tool offers. */
    scopes: z
      .array(z.enum(["once", "session"]))
      .default(["once", "session"])
      .refine((scopes) => scopes.includes("once"), "must hold once: every question can be answered so"),
    /** In place of `approvals.decideBySeconds`, and never longer. */
    decideBySeconds: seconds.optional(),
    /** In place of `approvals.executeBySeconds`, and never longer. */
    executeBySeconds: seconds.optional(),
    /** Whether the library's `onToolApprove` may answer: it is one decider, who holds no permission. */
    callback: z.boolean().default(false),
  })
  .superRefine(({ callback, require: { deciders: who, count = 1, stages } }, context) => {
    const asksForMore = stages !== undefined || count > 1 || (who?.permissions?.length ?? 0) > 0 || who?.subjects;
    if (callback && asksForMore) {
      context.addIssue({
        code: "custom",
        path: ["callback"],
        message: "cannot be true where more than one decider, stages, permissions or subjects are wanted",
      });
    }
  });

/** Who decides which questions. */
export const policies = z
  .array(policy)
  .max(POLICIES_MAX)
  .default([])
  .superRefine((written, context) => {
    for (const [index, { name: own }] of written.entries()) {
      if (written.findIndex((other) => other.name === own) < index)
        context.addIssue({ code: "custom", path: [index, "name"], message: "is taken by an earlier policy" });
    }
    if (JSON.stringify(written).length > CHARACTERS_MAX) {
      context.addIssue({ code: "custom", path: [], message: `has more than ${CHARACTERS_MAX} characters in all` });
    }
  });

interface Clocks {
  readonly decideBySeconds: number;
  readonly executeBySeconds: number;
  readonly policies: z.output<typeof policies>;
}

/** A policy makes a clock shorter, never longer: what the store keeps, and how long a plan may wait, is bounded in one place. */
export function longerClocks({ policies: written, ...clocks }: Clocks) {
  return written.flatMap((one, index) =>
    (["decideBySeconds", "executeBySeconds"] as const)
      .filter((key) => (one[key] ?? 0) > clocks[key])
      .map((key) => ({
        path: ["policies", index, key],
        message: `must not be longer than approvals.${key}, which is ${clocks[key]}`,
      })),
  );
}
