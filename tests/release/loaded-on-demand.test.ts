import { expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROJECT } from "../support/world.ts";

/** Asks a broker that is not there. Without code that the client needs, the reason would be that of the loader. */
const PROGRAM = `
  import { kafkaExporter } from "${join(PROJECT, "src/audit/export/kafka.ts")}";
  const settings = kafkaExporter.settings.parse({ brokers: ["127.0.0.1:1"], topic: "audit", plaintext: true });
  const receiver = kafkaExporter.open(settings, { path: (path) => path, problem: () => {} });
  console.log(JSON.stringify(await receiver.deliver([], new AbortController().signal)));
  await receiver.close();
`;

test("a bundle has everything that the Kafka client needs, without packages next to it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stc-bundle-"));
  try {
    const entry = join(PROJECT, "src/asks-kafka.ts");
    const built = await Bun.build({
      entrypoints: [entry],
      files: { [entry]: PROGRAM },
      outdir: folder,
      target: "bun",
      splitting: true,
    });
    expect(built.success).toBe(true);
    const program = built.outputs.find(({ kind }) => kind === "entry-point")?.path ?? "";
    const child = Bun.spawn([process.execPath, "--no-install", program], {
      cwd: folder,
      stdio: ["ignore", "pipe", "inherit"],
    });
    expect(JSON.parse(await new Response(child.stdout).text())).toEqual({ kind: "later", reason: "ECONNREFUSED" });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
