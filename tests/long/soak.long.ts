import { expect, test } from "bun:test";
import { join } from "node:path";
import { PROJECT } from "../support/world.ts";

/** Long: the soak in small, so that it is known to work when somebody runs it for its ten minutes. */
test(
  "a minute of soak has no unexplained finding",
  async () => {
    const script = join(PROJECT, "tests/soak/soak.ts");
    // A machine that gets slower after it was measured would answer OVERLOADED, rightly.
    const options = ["--minutes", "0.5", "--share", "0.3", "--growth", "1.6", "--durability", "write"];
    const child = Bun.spawn([process.execPath, script, ...options], {
      stdout: "pipe",
      stderr: "pipe",
    });
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    await child.exited;
    const failed = out.split("\n").filter((line) => line.startsWith("FAIL"));
    expect({ failed, err, code: child.exitCode }).toEqual({ failed: [], err: "", code: 0 });
  },
  { timeout: 600_000 },
);
