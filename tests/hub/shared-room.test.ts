import { expect, test } from "bun:test";
import { SharedRoom, type TakeRoom } from "../../src/hub/server/shared-room.ts";

/** Takes one at a time until there is no room. Returns the functions that give it back. */
function fill(take: TakeRoom): (() => void)[] {
  const taken: (() => void)[] = [];
  for (let free = take(1); free !== undefined; free = take(1)) taken.push(free);
  return taken;
}

test("one alone uses all the room, and what it gives back", () => {
  const take = new SharedRoom(8).join();
  const taken = fill(take);
  expect(taken).toHaveLength(8);
  taken[0]?.();
  expect(fill(take)).toHaveLength(1);
  expect(take(9)).toBeUndefined();
});

test("whoever comes first uses half of the room besides its own part, and the others still have their parts", () => {
  const room = new SharedRoom(16);
  const [noisy, ...others] = [room.join(), room.join(), room.join(), room.join()] as const;
  expect(fill(noisy)).toHaveLength(10);
  expect(others.map((take) => fill(take).length)).toEqual([2, 2, 2]);
  expect(noisy(1)).toBeUndefined();
});

test("one that joins a full room has its part; the first gets no more before it has given back", () => {
  const room = new SharedRoom(8);
  const noisy = room.join();
  const taken = fill(noisy);
  const late = room.join();
  expect(fill(late)).toHaveLength(2);
  for (const free of taken.slice(0, 2)) free();
  expect(noisy(1)).toBeUndefined();
  taken[2]?.();
  expect(noisy(1)).toBeDefined();
});
