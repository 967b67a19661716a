import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { parseUnifiedDiff } from "safe-tool-call";
import { stringify } from "yaml";
import { resourceDiff } from "../../../tools/platform/manifest-diff.ts";
import { temporaryDirectory } from "../../targets/command/temporary-directory.ts";

const DIFF = Bun.which("diff");
const folder = temporaryDirectory();

/** As argocd does it: both sides as YAML, shown by the program that the environment names. */
function diffOf(live: unknown, target: unknown, indentSeq: boolean): string {
  const write = (name: string, value: unknown): string => {
    const path = join(folder, name);
    writeFileSync(path, stringify(value, { indentSeq, lineWidth: 80 }));
    return path;
  };
  const { stdout } = Bun.spawnSync([DIFF ?? "", "-U", "1000000", write("live", live), write("target", target)]);
  return stdout.toString();
}

const secret = fc
  .tuple(
    fc.constantFrom("", "two words ", "a: b\nenv:\n- x: ", "- ", "# ", "|\n  ", "\n\n", '"', "{", "x ".repeat(60)),
    fc.nat(9),
  )
  .map(([before, number]) => `${before}HIDDEN${number}`);
const variable = fc.oneof(
  fc.record({ name: secret, value: secret }),
  fc.record({ value: secret, valueFrom: fc.record({ secretKeyRef: fc.record({ key: secret }) }) }),
);
const shown = fc.constantFrom("shown1", "shown2");
const container = fc.record(
  {
    args: fc.array(shown, { maxLength: 2 }),
    env: fc.array(variable, { maxLength: 3 }),
    envFrom: fc.array(fc.record({ prefix: secret })),
    image: shown,
  },
  { requiredKeys: ["image"] },
);
const resource = fc.record({
  kind: fc.constant("Deployment"),
  metadata: fc.record({ annotations: fc.dictionary(fc.constantFrom("a", "b/c"), secret), name: shown }),
  spec: fc.record({ replicas: fc.nat(2), template: fc.record({ containers: fc.array(container, { maxLength: 3 }) }) }),
});

test.skipIf(DIFF === null)("after any change no environment and no annotation is shown, and the rest is", () => {
  let changes = 0;
  fc.assert(
    fc.property(resource, resource, fc.boolean(), (live, target, indentSeq) => {
      const { files } = parseUnifiedDiff(diffOf(live, target, indentSeq));
      const hunks = files.flatMap((file) => resourceDiff("apps/Deployment/a/b", file).hunks);
      const lines = hunks.flatMap((hunk) => hunk.lines);
      expect(lines.join("\n")).not.toContain("HIDDEN");
      if (live.spec.replicas === target.spec.replicas) return;
      changes += 1;
      expect(lines).toContain(`-  replicas: ${live.spec.replicas}`);
      expect(lines).toContain(`+  replicas: ${target.spec.replicas}`);
    }),
    { numRuns: 300 },
  );
  expect(changes).toBeGreaterThan(50);
});
