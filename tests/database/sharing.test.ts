import { expect, test } from "bun:test";
import { Sharing } from "../../src/database/sharing.ts";

/** Returns the resources that were opened, with the state of each. */
function shared() {
  const opened: { isClosed: boolean; close(): Promise<void> }[] = [];
  const sharing = new Sharing<(typeof opened)[number]>();
  const open = () => {
    const resource = {
      isClosed: false,
      async close() {
        resource.isClosed = true;
      },
    };
    opened.push(resource);
    return resource;
  };
  return { opened, join: (url: string, tenant?: string) => sharing.join(url, tenant, open) };
}

test("tenants of one URL share a resource, which is closed when the last one leaves", async () => {
  const { opened, join } = shared();
  const shares = [join("one"), join("one", "acme"), join("one", "globex")];
  expect(new Set(shares.map(({ resource }) => resource)).size).toBe(1);
  for (const { leave } of shares) {
    expect(opened[0]?.isClosed).toBe(false);
    await leave();
  }
  expect(opened).toEqual([expect.objectContaining({ isClosed: true })]);
});

test("another URL has another resource", async () => {
  const { opened, join } = shared();
  const [one] = [join("one", "acme"), join("other", "acme")];
  await one?.leave();
  expect(opened.map(({ isClosed }) => isClosed)).toEqual([true, false]);
});

test("a second service of the same process has resources of its own", () => {
  const { opened, join } = shared();
  const first = [join("one"), join("one", "acme")].map(({ resource }) => resource);
  const second = [join("one"), join("one", "acme")].map(({ resource }) => resource);
  expect(opened).toHaveLength(2);
  expect([new Set(first).size, new Set(second).size]).toEqual([1, 1]);
});

test("a tenant that leaves twice leaves once, and can join again", async () => {
  const { opened, join } = shared();
  join("one");
  const acme = join("one", "acme");
  await Promise.all([acme.leave(), acme.leave()]);
  join("one", "acme");
  expect(opened).toEqual([expect.objectContaining({ isClosed: false })]);
});

test("a URL that everybody has left is opened again", async () => {
  const { opened, join } = shared();
  await join("one", "acme").leave();
  const { resource } = join("one", "acme");
  expect([opened.length, resource.isClosed]).toEqual([2, false]);
});
