import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { defineTool } from "../../src/index.ts";
import { readConfig } from "./build.ts";
import { LiveIssuers } from "./live-tokens.ts";

export const issuers = new LiveIssuers();

const whoami = defineTool({
  name: "whoami",
  description: "Answers with a word",
  classification: "read",
  permissions: { required: ["self:read"] },
  input: z.strictObject({}),
  handler: async () => ({ ok: true }),
  output: z.strictObject({ ok: z.boolean() }),
  outputPolicy: { ok: "allow" },
});

export interface IdentityStand {
  readonly folder: string;
  readonly service: RunningService;
  close(): Promise<void>;
}

export interface IdentityParts {
  readonly server?: Readonly<Record<string, unknown>>;
  readonly jwt?: Readonly<Record<string, unknown>>;
  /** A folder that holds what the configuration names; made when left out. */
  readonly folder?: string;
  readonly rest?: Readonly<Record<string, unknown>>;
  /** True for a development stand. */
  readonly isDevelopment?: boolean;
}

/** The section of a hub on loopback. */
export function hubSection(): object {
  const [agents] = issuers.profiles();
  const tokens = [{ issuer: agents?.["issuer"], audience: "stc-hub", algorithms: ["ES256"], jwks: agents?.["jwks"] }];
  return { listen: { port: 0 }, tokens, members: [{ subject: "agent" }] };
}

export function emptyFolder(): string {
  return realpathSync(mkdtempSync(join(tmpdir(), "stc-id-")));
}

/** The whole service with one tool, in this process. */
export async function startIdentityService(parts: IdentityParts): Promise<IdentityStand> {
  const { isDevelopment = false } = parts;
  const folder = parts.folder ?? emptyFolder();
  const written = {
    server: { port: 0, ...parts.server },
    tools: [whoami],
    audit: { dir: "./audit", durability: "write" },
    jwt: { issuers: issuers.profiles(), ...parts.jwt },
    log: { level: "silent" },
    ...parts.rest,
  };
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  const service = await Promise.resolve()
    .then(() =>
      startService(readConfig(written, { folder, environment: {}, origin: "test" }), undefined, { isDevelopment }),
    )
    .catch((error: unknown) => {
      if (parts.folder === undefined) remove();
      throw error;
    });
  return {
    folder,
    service,
    close: async () => {
      await service.drain().finally(remove);
    },
  };
}

export const CALL = '{"tool":"whoami","args":{}}';

/** The headers of a call by an agent who may make it. */
export async function callHeaders(claims?: Readonly<Record<string, unknown>>): Promise<Record<string, string>> {
  const token = await issuers.token({ kind: "good", sub: "agent-7", permissions: ["self:read"], claims });
  return { authorization: `Bearer ${token}`, "content-type": "application/json" };
}
