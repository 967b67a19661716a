import { afterEach, expect, test } from "bun:test";
import { mkdirSync, renameSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { until } from "../support/until.ts";

const WATCH = { reload: { trigger: "watch", perMinuteMax: 6_000 } };
const running: ReloadService[] = [];
afterEach(async () => {
  for (const service of running.splice(0)) await service.end();
});

async function started(changes: Readonly<Record<string, unknown>> = {}): Promise<ReloadService> {
  const service = new ReloadService({ ...WATCH, ...changes });
  running.push(service);
  return service.start();
}

/** Within the ten seconds of `until`: the look at everything, every fifteen, does not count. */
async function saying(service: ReloadService, wanted: string): Promise<void> {
  const token = await service.agent();
  await until(`the answer ${wanted}`, async () => ((await service.says({}, token)) === wanted ? true : undefined));
}

/** How a folder of manifests is exchanged: by a version control system, by a tool that deploys. */
const exchanges: readonly (readonly [string, (service: ReloadService, text: string) => void])[] = [
  [
    "removed and made anew",
    (service, text) => {
      service.remove("tools");
      service.write("tools/hello.ts", text);
    },
  ],
  [
    "renamed, another in its place",
    (service, text) => {
      service.write(`next-${text.length}/hello.ts`, text);
      renameSync(join(service.folder, "tools"), join(service.folder, `former-${Bun.hash(text)}`));
      renameSync(join(service.folder, `next-${text.length}`), join(service.folder, "tools"));
    },
  ],
  [
    "a link that leads elsewhere from now on",
    (service, text) => {
      const target = `at-${Bun.hash(text)}`;
      service.write(`${target}/hello.ts`, text);
      symlinkSync(target, join(service.folder, "tools.new"));
      service.remove("tools");
      renameSync(join(service.folder, "tools.new"), join(service.folder, "tools"));
    },
  ],
];

test.each(exchanges)("a folder that is %s is watched as before", async (_title, exchange) => {
  const service = await started();
  exchange(service, manifest({ says: "exchanged" }));
  await saying(service, "exchanged");
  service.write("tools/hello.ts", manifest({ says: "and changed" }));
  await saying(service, "and changed");
  exchange(service, manifest({ says: "exchanged again" }));
  await saying(service, "exchanged again");
  service.write("tools/hello.ts", manifest({ says: "and again" }));
  await saying(service, "and again");
});

test("a folder that was missing for a while is watched again", async () => {
  const service = await started();
  service.remove("tools");
  await until("the refusal", () => (service.journal("configuration.refused").length > 0 ? true : undefined));
  expect(await service.says()).toBe("first");
  mkdirSync(join(service.folder, "tools"));
  service.write("tools/hello.ts", manifest({ says: "back" }));
  await saying(service, "back");
  service.write("tools/hello.ts", manifest({ says: "and followed" }));
  await saying(service, "and followed");
});

test("a helper outside the folder is watched, and so is one that a changed manifest begins to import", async () => {
  const service = await started();
  service.write("shared/words.ts", 'export const words = "one";\n');
  const before = 'import { words } from "../shared/words.ts";';
  service.write("tools/hello.ts", manifest({ before, body: "return { said: words };" }));
  await saying(service, "one");
  service.write("shared/words.ts", 'export const words = "two";\n');
  await saying(service, "two");
});

test("a hundred changes in a second cause few reloads, and the last one counts", async () => {
  const service = await started({ reload: { ...WATCH.reload, perMinuteMax: 30 } });
  for (let index = 0; index < 100; index += 1) {
    service.write("tools/hello.ts", manifest({ says: `change ${index}` }));
    await Bun.sleep(10);
  }
  await saying(service, "change 99");
  expect(service.journal("configuration.changed").length).toBeLessThan(8);
});
