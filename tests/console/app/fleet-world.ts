import { expect } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { postgresExporter } from "../../../src/audit/export/stores.ts";
import { type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { exportLog } from "../../support/stored-logs.ts";
import { until } from "../../support/until.ts";
import { ConsoleWorld } from "./console-world.ts";

/** The console of `replica-0`, with an audit store that the log of another replica fills too. */
export class FleetWorld extends ConsoleWorld {
  #server: PostgresServer | undefined;

  /**
   * Fills the store and starts the service; a first call of its own, to a tool that does not exist, is then in the store.
   * @param otherLog the directory of the other replica's log
   */
  async startFleet(native: string, otherLog: string, audit: Readonly<Record<string, unknown>> = {}): Promise<void> {
    const server = await startPostgres(native);
    this.#server = server;
    const urlFile = join(this.folder, "store-url");
    writeFileSync(urlFile, await server.createDatabase("fleet"));
    const receiver = postgresExporter.open({ urlFile }, { path: (path) => path, clock: Date.now, problem: () => {} });
    if (receiver === undefined) throw new Error("no receiver");
    await exportLog(otherLog, receiver);
    await receiver.close?.();
    const store = { storeUrlFile: urlFile, export: [{ type: "postgres", urlFile }] };
    await this.start({ instance: "replica-0", audit: { dir: "audit", ...store, ...audit } });
    await this.call("nothing_such", {});
    await until("the call in the store", async () => {
      const [row] = await server.send(
        "SELECT count(*)::int AS lines FROM audit_lines WHERE tool = 'nothing_such'",
        "fleet",
      );
      return row?.["lines"] === 1 || undefined;
    });
  }

  /**
   * Stops the store below a page of all replicas, and presses a button that asks it: the page says so. What it shows of this replica
   * alone, one step away, is `checked` before the store is back.
   */
  async showsItsOwn(page: Page, button: string, checked: () => Promise<void>): Promise<void> {
    await page.getByText(/^All replicas: /).waitFor();
    await this.#server?.stop();
    try {
      await page.getByRole("button", { name: button }).click();
      await page.getByRole("alert").getByText("TARGET_UNAVAILABLE").waitFor();
      expect(await page.locator(".records").count()).toBe(0);
      await page.getByRole("link", { name: "Show this replica's own lines" }).click();
      await checked();
    } finally {
      await this.#server?.start();
    }
  }

  override async end(): Promise<void> {
    await super.end();
    await this.#server?.end();
  }
}
