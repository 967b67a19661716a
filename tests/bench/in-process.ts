import { mkdtempSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { SafeToolCall } from "../../src/index.ts";
import { echo } from "./tools/echo.ts";

/** Prints the processor time of a governed call of a function, in microseconds: `ours`, or `toolkit` as installed in `folder`. */
const [which, folder = "", token = ""] = process.argv.slice(2);
const WARMUP = 5_000;
const CALLS = 20_000;
const IN_FLIGHT = 64;
const ARGUMENTS = { text: "hello", count: 3 };

interface Toolkit {
  readonly AgentMeshClient: {
    create(
      name: string,
      options: object,
    ): { executeWithGovernance(action: string, facts: object): Promise<{ readonly decision: string }> };
  };
}

async function ours(): Promise<() => Promise<void>> {
  const service = SafeToolCall.create({
    tools: [echo],
    audit: { dir: mkdtempSync(join(folder, "audit-")) },
    jwt: { issuer: "https://bench", audience: "bench", algorithms: ["ES256"], jwksFile: join(folder, "jwks.json") },
  });
  await service.ready();
  return async () => {
    const { status } = await service.call("bench_echo", ARGUMENTS, token);
    if (status !== "success") throw new Error(status);
  };
}

function toolkit(): () => Promise<void> {
  const { AgentMeshClient } = createRequire(join(folder, "package.json"))("@microsoft/agent-governance-sdk") as Toolkit;
  const client = AgentMeshClient.create("bench", {
    capabilities: ["bench.echo"],
    policyRules: [
      { action: "bench.echo", effect: "allow" },
      { action: "*", effect: "deny" },
    ],
  });
  return async () => {
    const { decision } = await client.executeWithGovernance("bench.echo", ARGUMENTS);
    if (decision !== "allow") throw new Error(decision);
    echo.output.parse({ ...echo.input.parse(ARGUMENTS), email: "somebody@example.org" });
  };
}

async function times(call: () => Promise<void>, count: number): Promise<void> {
  let left = count;
  const lane = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await call();
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
}

const call = which === "ours" ? await ours() : toolkit();
await times(call, WARMUP);
const before = process.cpuUsage();
await times(call, CALLS);
const { user, system } = process.cpuUsage(before);
console.log((user + system) / CALLS);
process.exit(0);
