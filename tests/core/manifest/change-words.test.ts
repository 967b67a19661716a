import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { changeWord, classificationNotes } from "../../../src/core/manifest/change-words.ts";
import type { Tool } from "../../../src/core/types.ts";
import { cliCommand, defineTool, grpcMethod } from "../../../src/index.ts";
import { callHeaders, type IdentityStand, startIdentityService } from "../../support/identity-service.ts";

const COMMON = {
  description: "A thing of the platform",
  classification: "read",
  permissions: { required: ["self:read"] },
  input: z.strictObject({ text: z.enum(["a", "b"]).optional() }),
  output: z.strictObject({ ok: z.boolean() }),
  outputPolicy: { ok: "allow" },
} as const;

const define = (changes: Record<string, unknown>): Tool =>
  defineTool({ ...COMMON, handler: () => ({ ok: true }), ...changes } as never) as unknown as Tool;

test("a command whose description says execute may be a read", () => {
  expect(changeWord({ name: "execute_query", description: "Executes a read-only SQL query" })).toBeUndefined();
  expect(changeWord({ name: "sql", description: "Execute a read-only query" })).toBeUndefined();
  expect(changeWord({ name: "execute_sql", description: "Executes SQL" })).toBe("execute");
  expect(changeWord({ name: "delete_rows", description: "Deletes rows of read-only tables" })).toBe("delete");
});

describe("a name that says change", () => {
  test.each([
    ["delete_everything", "delete"],
    ["k8s_delete_pod", "delete"],
    ["deleteUser", "delete"],
    ["bulk-remove", "remove"],
    ["get_and_delete_item", "delete"],
    ["execute_sql", "execute"],
    ["write_file", "write"],
    ["shell", "shell"],
    ["delete_logs", "delete"],
    ["restart_worker", "restart"],
    ["update_order", "update"],
  ])("%s", (name, word) => expect(changeWord({ name, description: "X" })).toBe(word));

  test.each(
    [
      "get_customer list_delete_requests search_removed_items update_history write_stats restart_count refund_status",
      "fs_read git_log query_logs add merge sort_rows convert greet whoami updated_since created_by deleted_items",
      "settings undelete rewrite_preview list_create_events shell_history kubernetes_view",
    ].flatMap((line) => line.split(" ")),
  )("not %s", (name) => expect(changeWord({ name, description: "X" })).toBeUndefined());
});

describe("a description that says change", () => {
  test.each([
    ["Deletes everything", "delete"],
    ["Remove a customer from the list", "remove"],
    ["Modifies settings", "modify"],
    ["Pushes the branch", "push"],
    ["Update an order", "update"],
    ["  overwrite files", "overwrite"],
  ])("%s", (description, word) => expect(changeWord({ name: "thing", description })).toBe(word));

  test.each([
    "List what was deleted, and delete nothing",
    "Update history of an order",
    "Restart counts by pod",
    "Write statistics of a disk",
    "Show how to delete a user",
    "Deleted items",
    "Created orders of a day",
    "Settings of the service",
    "",
  ])("not %p", (description) => expect(changeWord({ name: "thing", description })).toBeUndefined());
});

describe("a tool whose words say more than its manifest", () => {
  test("asks like network or command, unless the manifest says category read", () => {
    const name = "delete_everything";
    const targets = {
      handler: undefined,
      target: cliCommand({ command: "x", argsBuilder: () => ["--"] }),
    };
    expect(define({ name }).category).toBe("network");
    expect(define({ name, handler: undefined, target: grpcMethod("a", "a.v1.A", "B") }).category).toBe("network");
    expect(define({ name, ...targets }).category).toBe("command");
    expect(define({ name, category: "read" }).category).toBe("read");
    expect(define({ name, category: "ask" }).category).toBe("ask");
    expect(define({ name: "find_everything" }).category).toBe("read");
  });

  test("gets a note, unless the manifest says category read", () => {
    const said = { field: "classification", message: expect.stringMatching(/"delete".* category: "read" if the tool/) };
    expect(classificationNotes(define({ name: "delete_everything" }))).toEqual([said]);
    expect(classificationNotes(define({ name: "delete_everything", category: "read" }))).toEqual([]);
    expect(classificationNotes(define({ name: "find_everything" }))).toEqual([]);
    const written = { name: "delete_everything", classification: "write", category: "network" };
    expect(classificationNotes(define(written))).toEqual([]);
  });

  test("gets a note if it is additive and its words say more than that", () => {
    const adds = { classification: "write", category: "write", additive: true };
    const said = {
      field: "additive",
      message: expect.stringMatching(/"delete": MCP clients still get destructiveHint: true/),
    };
    expect(classificationNotes(define({ ...adds, name: "create_and_delete" }))).toEqual([said]);
    for (const name of ["create_order", "send_message", "create_delete_marker", "add_note"])
      expect(classificationNotes(define({ ...adds, name }))).toEqual([]);
  });
});

describe("in a service without approvals", () => {
  let stand: IdentityStand;
  beforeAll(async () => {
    const tools = [define({ name: "delete_everything" }), define({ name: "delete_preview", category: "read" })];
    stand = await startIdentityService({ rest: { tools } });
  });
  afterAll(() => stand.close());

  const call = async (tool: string) => {
    const body = JSON.stringify({ tool, args: {} });
    return await fetch(`${stand.service.url}/call`, { method: "POST", headers: await callHeaders(), body });
  };

  test("it is refused, since nobody can approve", async () => {
    const response = await call("delete_everything");
    expect(response.status).toBe(403);
    expect(await response.json()).toMatchObject({
      error: {
        code: "APPROVAL_DENIED",
        stage: "APPROVAL",
        message: "This call needs a person's approval, and no approver is configured.",
      },
    });
    const folder = join(stand.folder, "audit");
    const files = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
    const lines = files.flatMap((name) => readFileSync(join(folder, name), "utf8").trim().split("\n"));
    expect(lines.map((line) => JSON.parse(line) as unknown)).toContainEqual(
      expect.objectContaining({
        tool: expect.objectContaining({ name: "delete_everything", classification: "read" }),
        decision: "DENIED",
        denial: expect.objectContaining({ stage: "APPROVAL" }),
        error: { code: "APPROVAL_DENIED" },
      }),
    );
  });

  test("it runs when the manifest names its category", async () => {
    expect(await (await call("delete_preview")).json()).toMatchObject({ status: "success", result: { ok: true } });
  });
});
