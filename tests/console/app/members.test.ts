import { expect, test } from "bun:test";
import { type MemberShown, membersInOrder } from "../../../src/console/app/systems/model.ts";

const member = (name: string, bundle?: readonly [version: number, state: string]): MemberShown =>
  ({
    ...{ name, instance: "i-1", connected: true, lastContact: "2026-03-10T12:30:00Z", inFlight: 0 },
    ...(bundle && { bundle: { version: bundle[0], digest: "0123456789ab", state: bundle[1] } }),
  }) as MemberShown;

test("members whose bundle failed come first, then those with older versions, then those without a bundle", () => {
  const members = [
    member("without"),
    member("current-10", [4, "current"]),
    member("current-2", [4, "current"]),
    member("held", [3, "held"]),
    member("behind", [2, "current"]),
    member("unreachable", [4, "unreachable"]),
    member("expired", [4, "expired"]),
    member("refused", [4, "refused"]),
    member("refused-older", [3, "refused"]),
  ];
  expect(membersInOrder(members).map(({ name }) => name)).toEqual([
    ...["refused-older", "refused", "expired", "unreachable"],
    ...["behind", "held", "current-2", "current-10", "without"],
  ]);
});

test("a member that claims the highest version does not come before others that have failed or are older", () => {
  const members = [
    member("liar", [Number.MAX_SAFE_INTEGER, "current"]),
    member("b", [3, "current"]),
    member("a", [3, "current"]),
  ];
  expect(membersInOrder(members).map(({ name }) => name)).toEqual(["a", "b", "liar"]);
});
