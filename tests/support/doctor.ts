import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type CheckResult, runChecks } from "../../src/cli/doctor/check.ts";
import { CHECKS } from "../../src/cli/doctor/checks.ts";
import { openDeployment } from "../../src/cli/doctor/deployment.ts";
import { LiveIssuers } from "./live-tokens.ts";

export const TOOL = `
name: read_note
description: Reads a note
classification: read
permissions: { required: ["notes:read"] }
input: { type: object, properties: {}, additionalProperties: false }
output: { type: object, properties: { text: { type: string } } }
outputPolicy: { text: allow }
target: { system: api, http: { method: GET, path: /note } }
`;

/** A deployment in a folder of its own that every user may enter, as `/etc` is. */
export class DoctorStand {
  readonly folder: string;
  readonly issuers = new LiveIssuers();
  readonly configFile: string;

  constructor() {
    this.folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-doctor-")));
    chmodSync(this.folder, 0o755);
    this.configFile = join(this.folder, "stc.yaml");
    this.file("a.tool.yaml", TOOL);
    this.configure();
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  file(name: string, text: string | Buffer, mode = 0o600): string {
    mkdirSync(dirname(this.path(name)), { recursive: true });
    writeFileSync(this.path(name), text);
    chmodSync(this.path(name), mode);
    return `./${name}`;
  }

  /** Writes the configuration; `changes` replace whole sections. */
  configure(changes: Readonly<Record<string, unknown>> = {}): void {
    this.file("jwks.json", JSON.stringify({ keys: [this.issuers.agents.jwk] }), 0o644);
    this.file("people.json", JSON.stringify({ keys: [this.issuers.operators.jwk] }), 0o644);
    const [agents, people] = this.issuers.profiles().map(({ jwks: _, ...profile }) => profile);
    const written = {
      server: { port: 1 },
      tools: ["./a.tool.yaml"],
      audit: { dir: "./audit" },
      jwt: {
        issuers: [
          { ...agents, jwksFile: "./jwks.json" },
          { ...people, jwksFile: "./people.json" },
        ],
      },
      systems: { api: { http: { baseUrl: "http://127.0.0.1:1", plaintext: true, addresses: ["loopback"] } } },
      ...changes,
    };
    this.file("stc.yaml", JSON.stringify(written), 0o644);
  }

  /** An issuer whose keys are fetched. */
  fetchedIssuer(jwksUri: string): Readonly<Record<string, unknown>> {
    const [{ jwks: _, ...agents } = {}] = this.issuers.profiles();
    return { issuers: [{ ...agents, jwksUri }] };
  }

  /** Runs one check. */
  async check(
    name: string,
    options: { readonly tokenFile?: string; readonly url?: string } = {},
  ): Promise<CheckResult> {
    const deployment = await openDeployment({ config: this.configFile, ...options });
    try {
      const [result] = await runChecks(
        CHECKS.filter((check) => check.name === name),
        deployment,
      );
      if (result === undefined) throw new Error(`there is no check ${name}`);
      return result;
    } finally {
      await deployment.close();
    }
  }

  end(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** What was seen, as one text. */
export function seenIn({ findings }: CheckResult): string {
  return findings.map(({ seen }) => seen).join("\n");
}

export function nextIn({ findings }: CheckResult): string {
  return findings.flatMap(({ next }) => next ?? []).join("\n");
}
