import { expect, test } from "bun:test";
import { type Built, LiveSnapshots } from "../../../src/runtime/reload/snapshots.ts";
import { until } from "../../support/until.ts";

const LONG_MS = 60_000;

function generation(name: string, closed: string[]): Built {
  const close = async (): Promise<void> => void closed.push(name);
  return { modules: new Set([name]), close } as unknown as Built;
}

test("a replaced configuration snapshot is closed when its last call has ended, and not before", async () => {
  const closed: string[] = [];
  const ended: string[] = [];
  const live = new LiveSnapshots(generation("a", closed), LONG_MS);
  const [first, second] = [live.enter(), live.enter()];
  live.exchange(generation("b", closed), () => void ended.push("a"));
  expect([live.number, live.lingering, [...live.modules()].sort()]).toEqual([2, 1, ["a", "b"]]);
  first.leave();
  const later = live.enter();
  expect(closed).toEqual([]);
  second.leave();
  await until("the end", () => (ended.length > 0 ? true : undefined));
  later.leave();
  expect([closed, live.lingering, [...live.modules()]]).toEqual([["a"], 0, ["b"]]);
  await live.close();
  expect(closed).toEqual(["a", "b"]);
});

test("an unused snapshot is closed at once; the current one stays when its calls end", async () => {
  const closed: string[] = [];
  const live = new LiveSnapshots(generation("a", closed), LONG_MS);
  live.enter().leave();
  expect(closed).toEqual([]);
  live.exchange(generation("b", closed), () => {});
  expect(closed).toEqual(["a"]);
});

test("a call that never ends does not keep its snapshot open forever, and its end changes nothing more", async () => {
  const closed: string[] = [];
  const live = new LiveSnapshots(generation("a", closed), 1);
  const stuck = live.enter();
  live.exchange(generation("b", closed), () => {});
  await until("the end of its patience", () => (closed.length > 0 ? true : undefined));
  stuck.leave();
  await live.close();
  expect(closed).toEqual(["a", "b"]);
});

test("closing ends all of them, each once", async () => {
  const closed: string[] = [];
  const live = new LiveSnapshots(generation("a", closed), LONG_MS);
  const call = live.enter();
  live.exchange(generation("b", closed), () => {});
  await live.close();
  call.leave();
  expect(closed.sort()).toEqual(["a", "b"]);
});
