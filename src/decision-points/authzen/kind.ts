import { z } from "zod";
import { errorText } from "../../core/error-text.ts";
import { callLimits, checkUrl, ownUrlSettings, plainUrl, readUrlSystem, resilienceOf } from "../../egress/settings.ts";
import type { DecisionPointKind } from "../kind.ts";

const settings = z
  .strictObject({
    url: plainUrl.describe(
      "URL of the decision point, with the path that its endpoints share. `/access/v1/evaluation` is added.",
    ),
    ...ownUrlSettings,
    ...callLimits,
  })
  .superRefine((entry, context) => checkUrl("url", entry.url, entry, context));

/** A decision point that speaks the Authorization API of OpenID AuthZEN 1.0. */
export const authzen: DecisionPointKind<"authzen", typeof settings> = {
  key: "authzen",
  settings: settings.describe("A decision point that speaks AuthZEN 1.0."),
  isRemote: true,
  async open(entry, context) {
    const { field, name, problems, random, timeoutMs } = context;
    const system = await readUrlSystem(context, field, entry);
    if (system === undefined) return undefined;
    const { AuthZenPoint } = await import("./client.ts");
    try {
      return new AuthZenPoint({ ...system, name, timeoutMs, random, resilience: resilienceOf(entry) });
    } catch (error) {
      problems.push(`${field}: ${errorText(error)}`);
      return undefined;
    }
  },
};
