import { join } from "node:path";
import { PROJECT } from "./world.ts";

/** Starts `tests/clients/service-child.ts`: a service in a process of its own, which a test can kill. */
export async function startServiceChild(folder: string, port: number) {
  const path = join(PROJECT, "tests/clients/service-child.ts");
  const child = Bun.spawn([process.execPath, path, folder, String(port)], { stdout: "pipe", stderr: "inherit" });
  for await (const line of child.stdout.pipeThrough(new TextDecoderStream())) {
    return { process: child, ...(JSON.parse(line) as { readonly url: string; readonly token: string }) };
  }
  throw new Error("the service did not start");
}
