import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DEVELOPMENT_SERVER_NAME, type PemPair } from "../../../../src/cli/development/certificates.ts";
import { certificateFiles } from "../../../../src/egress/rotation.ts";
import { grpcHandler } from "../../../../src/targets/grpc/handler.ts";
import { until } from "../../../support/until.ts";
import { makeAuthority } from "./authority.ts";
import { call } from "./calls.ts";
import { FILES } from "./files.ts";
import { labSystem, startLab } from "./lab.ts";
import { labTool } from "./tool.ts";

export interface RotationLoad {
  readonly seconds: number;
  readonly callsPerSecond: number;
  readonly rotations: number;
}

export interface RotationFindings {
  readonly answered: number;
  readonly refused: readonly string[];
  /** Number of client certificates that the service has seen. */
  readonly identities: number;
  readonly events: readonly string[];
}

const TICK_MS = 10;

/** A folder whose certificates are replaced like those of a mounted secret. */
class MountedSecret {
  readonly folder = mkdtempSync(join(tmpdir(), "stc-rotation-load-"));
  #version = 0;

  constructor() {
    for (const name of ["ca.pem", "client.pem", "client-key.pem"]) symlinkSync(`..data/${name}`, this.path(name));
  }

  install(rootCert: string, { cert, key }: PemPair): void {
    this.#version += 1;
    const name = `..version-${this.#version}`;
    mkdirSync(join(this.folder, name));
    writeFileSync(join(this.folder, name, "ca.pem"), rootCert);
    writeFileSync(join(this.folder, name, "client.pem"), cert);
    writeFileSync(join(this.folder, name, "client-key.pem"), key);
    symlinkSync(name, join(this.folder, "..next"));
    renameSync(join(this.folder, "..next"), join(this.folder, "..data"));
  }

  path(name: string): string {
    return join(this.folder, name);
  }
}

/** Calls at a constant rate, whether or not earlier calls are answered, while the certificates are replaced repeatedly. */
export async function rotateUnderLoad({ seconds, callsPerSecond, rotations }: RotationLoad): Promise<RotationFindings> {
  const authority = await makeAuthority("own");
  const lab = await startLab({ certificates: await authority.set() });
  const secret = new MountedSecret();
  secret.install(authority.rootCert, await authority.client());
  const paths = {
    rootCert: secret.path("ca.pem"),
    clientCert: secret.path("client.pem"),
    clientKey: secret.path("client-key.pem"),
  };
  const source = certificateFiles({ ...paths, serverName: DEVELOPMENT_SERVER_NAME }, FILES);
  const system = labSystem(lab.port, {
    tls: source.read(),
    certificates: source,
    resilience: { concurrentCallsMax: 100_000, retriesMax: 0 },
  });
  const handler = grpcHandler({ systems: new Map([["lab", system]]) });
  const events: string[] = [];
  handler.watch({ now: () => 1_800_000_000_000, report: ({ type }) => events.push(type) });
  const binding = handler.bind(labTool({ method: "Inspect" }));
  const identities = new Set<string>();
  const refused: string[] = [];
  const under = new Set<Promise<void>>();
  let answered = 0;
  const one = (): void => {
    const work = call(binding, {}).then(
      (answer) => {
        answered += 1;
        identities.add((answer as { headers: Record<string, string> }).headers["lab-peer"] ?? "");
      },
      (error: unknown) => void refused.push(String(error)),
    );
    under.add(work);
    void work.then(() => under.delete(work));
  };
  const ticks = (seconds * 1_000) / TICK_MS;
  const perTick = (callsPerSecond * TICK_MS) / 1_000;
  for (let tick = 0; tick < ticks; tick += 1) {
    for (let made = 0; made < perTick; made += 1) one();
    if (tick % Math.floor(ticks / (rotations + 1)) === 1 && tick > 1) {
      secret.install(authority.rootCert, await authority.client());
    }
    await Bun.sleep(TICK_MS);
  }
  await Promise.all(under);
  const found = { answered, refused: [...refused] };
  // The last certificates may have come into use after the last call of the load.
  await until("a call with the last certificate", async () => {
    one();
    await Promise.all(under);
    return identities.size > events.length || refused.length > found.refused.length ? true : undefined;
  });
  await handler.close();
  lab.close();
  rmSync(secret.folder, { recursive: true, force: true });
  return { ...found, identities: identities.size, events };
}
