import { join } from "node:path";
import { type FsLimits, fsHandler } from "../../../src/targets/files/handler.ts";
import { openMounts } from "../../../src/targets/files/mounts.ts";
import { workflowRules } from "../../../src/targets/files/workflow.ts";
import { fsWrite } from "../../../tools/workspace/fs-write.ts";

export const LIMITS: FsLimits = {
  maxReadBytes: 51_200,
  maxWriteBytes: 1_048_576,
  fileBytesMax: 67_108_864,
  agents: [],
  search: { filesMax: 50_000, bytesMax: 268_435_456, fileBytesMax: 4_194_304, timeMs: 10_000 },
};

/** Runs fs_write over mounts that another process created. */
export function fsStandIn(folder: string): { write(path: string, content: string): Promise<unknown> } {
  const names = ["project", "pkg", "state"] as const;
  const directories = new Map(names.map((name) => [name, join(folder, name)] as const));
  const mounts = openMounts({ directories, protectedPaths: [] });
  if (mounts === undefined) throw new Error("nothing confines paths here");
  const workflow = workflowRules({ stateKey: "currentNodeId" });
  const newId = (): string => crypto.randomUUID();
  const tool = fsWrite.make({ workspaceMounts: () => ["@project"] } as never);
  const binding = fsHandler({ mounts, limits: LIMITS, workflow, now: () => 0, newId }).bind(tool);
  const { signal } = new AbortController();
  const caller = { issuer: "https://idp.test", subject: "agent", permissions: [], actors: [], expiresAt: 0 };
  return {
    async write(path, content) {
      const plan = await binding.plan({ path, content, createDirectories: false }, { signal });
      return binding.run(plan, { signal, deadline: 20_000, traceId: "trace", caller });
    },
  };
}
