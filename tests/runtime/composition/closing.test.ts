import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MODULES } from "../../../src/modules.ts";
import type { Hooks } from "../../../src/runtime/composition/wiring.ts";
import { journalEntries } from "../../support/audit-files.ts";
import { readConfig, wire } from "../../support/build.ts";
import { manifest } from "../../support/reload-service.ts";
import { makeSigningKey } from "../../support/tokens.ts";

/** The order in which the parts of a service are closed: at its end, and after a start that failed. */

let folder: string;
let closed: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "stc-closing-"));
  writeFileSync(join(folder, "hello.ts"), manifest());
  closed = [];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Stores whose `close` fails after they have closed. */
const approvalStores = MODULES.approvalStores.map((kind) => ({
  ...kind,
  open: async (...given: Parameters<typeof kind.open>) => {
    const store = await kind.open(...given);
    const close = store.close.bind(store);
    return Object.assign(store, {
      async close() {
        await close();
        closed.push(`the store, after ${journalTypes().at(-1)}`);
        throw new Error("the store does not end well");
      },
    });
  },
}));

function journalTypes(): readonly string[] {
  return journalEntries(join(folder, "audit")).map(({ type }) => type);
}

function open(hooks: Hooks) {
  const written = {
    ...{ tools: ["./hello.ts"], audit: { dir: "./audit", durability: "write" } },
    approvals: { store: "sqlite://./approvals.sqlite" },
    jwt: {
      issuers: [
        {
          ...{ issuer: "https://agents.test", audience: "safe-tool-call", algorithms: ["ES256"] },
          jwks: { keys: [makeSigningKey("ES256", "k1").jwk] },
        },
      ],
    },
  };
  const config = readConfig(written, { folder, environment: {}, origin: "test" });
  return wire(config, hooks, { ...MODULES, approvalStores });
}

const hubOfTenant = { close: () => void closed.push("the hub") };

test("a service closes the store after what uses it, and the audit last, also when the store fails", async () => {
  const service = await open({ serviceHub: () => hubOfTenant as never });
  await expect(service.close(0)).rejects.toThrow("the store does not end well");
  expect(closed).toEqual(["the hub", "the store, after service.started"]);
  expect(journalTypes().at(-1)).toBe("service.stopped");
});

test("a start that fails closes the same parts in the same order, and says why it failed", async () => {
  const refused = new Error("no hub");
  const failing = (): never => {
    throw refused;
  };
  await expect(open({ serviceHub: failing })).rejects.toBe(refused);
  expect(closed).toEqual(["the store, after service.started"]);
  // No lock is left.
  const service = await open({});
  await expect(service.close(0)).rejects.toThrow();
});
