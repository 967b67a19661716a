import { afterAll, expect, test } from "bun:test";
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { watchFiles } from "../../../src/runtime/config/watched-files.ts";
import { until } from "../../support/until.ts";

const stands: Stand[] = [];
afterAll(() => {
  for (const stand of stands) stand.end();
});

/** A folder with `place/file` in it, looked at from now on, and what was told of it. */
class Stand {
  readonly #folder = mkdtempSync(join(tmpdir(), "stc-watched-"));
  readonly #watching: { close(): void };
  files: readonly string[] = [this.at("place", "file")];
  looks = 0;
  told = 0;
  beforeLook = (): void => {};

  constructor(unstableChecksMax = 0) {
    stands.push(this);
    mkdirSync(this.at("place"));
    writeFileSync(this.files[0] ?? "", "first");
    const files = (): readonly string[] => {
      this.looks += 1;
      this.beforeLook();
      return this.files;
    };
    const onChange = (): void => {
      this.told += 1;
    };
    this.#watching = watchFiles(files, onChange, { unstableChecksMax });
  }

  at(...names: readonly string[]): string {
    return join(this.#folder, ...names);
  }

  /** Until it was told of so many changes, the first look among them. */
  async toldOf(count: number): Promise<void> {
    await until(`change ${count}`, () => (this.told >= count ? true : undefined));
  }

  /** Until so many looks were begun and ended. */
  async looked(count: number): Promise<void> {
    const wanted = this.looks + count + 1;
    await until("further looks", () => (this.looks >= wanted ? true : undefined));
  }

  close(): void {
    this.#watching.close();
  }

  end(): void {
    this.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

const changes: readonly (readonly [string, (stand: Stand, file: string) => void])[] = [
  ["is written over", (_stand, file) => writeFileSync(file, "other")],
  [
    "is written over with as many bytes at the same time",
    (_stand, file) => {
      const { atime, mtime } = statSync(file);
      writeFileSync(file, "FIRST");
      utimesSync(file, atime, mtime);
    },
  ],
  [
    "is replaced",
    (stand, file) => {
      writeFileSync(stand.at("next"), "first");
      renameSync(stand.at("next"), file);
    },
  ],
  ["is removed", (_stand, file) => rmSync(file)],
  ["goes with its folder", (stand) => rmSync(stand.at("place"), { recursive: true })],
  [
    "is made anew with its folder",
    (stand, file) => {
      rmSync(stand.at("place"), { recursive: true });
      mkdirSync(stand.at("place"));
      writeFileSync(file, "first");
    },
  ],
  [
    "gives way to a pipe",
    (stand, file) => {
      Bun.spawnSync(["mkfifo", stand.at("pipe")]);
      renameSync(stand.at("pipe"), file);
    },
  ],
];

test.concurrent.each(changes)("a file that %s is reported once", async (_title, change) => {
  const stand = new Stand();
  await stand.toldOf(1);
  change(stand, stand.at("place", "file"));
  await stand.toldOf(2);
  await stand.looked(1);
  expect(stand.told).toBe(2);
});

test.concurrent("so is one behind a link, or in a folder behind one, that points elsewhere from now on", async () => {
  const stand = new Stand();
  const lead = (version: string): void => {
    mkdirSync(stand.at(version));
    writeFileSync(stand.at(version, "file"), "first");
    symlinkSync(version, stand.at("next"));
    renameSync(stand.at("next"), stand.at("current"));
  };
  lead("one");
  symlinkSync(join("..", "current", "file"), stand.at("place", "linked"));
  stand.files = [stand.at("place", "linked"), stand.at("current", "file")];
  await stand.toldOf(2);
  for (const [index, version] of ["two", "three"].entries()) {
    lead(version);
    await stand.toldOf(3 + index);
  }
});

test.concurrent("nothing is reported while nothing changes, nor for another file next to it", async () => {
  const stand = new Stand();
  await stand.toldOf(1);
  writeFileSync(stand.at("place", "beside"), "");
  await stand.looked(3);
  expect(stand.told).toBe(1);
});

test.concurrent("a file that is named later is watched from then on", async () => {
  const stand = new Stand();
  await stand.toldOf(1);
  const later = stand.at("later");
  writeFileSync(later, "");
  stand.files = [...stand.files, later];
  await stand.toldOf(2);
  writeFileSync(later, "changed");
  await stand.toldOf(3);
});

test.concurrent("a file is reported after it stopped changing, and one that never stops in the end", async () => {
  const stand = new Stand(4);
  await stand.toldOf(1);
  const file = stand.at("place", "file");
  stand.beforeLook = () => appendFileSync(file, "more");
  await stand.looked(3);
  expect(stand.told).toBe(1);
  await stand.toldOf(2);
  stand.beforeLook = () => {};
  appendFileSync(file, "the end");
  await stand.toldOf(3);
});

test.concurrent("after the end nothing is read or reported", async () => {
  const stand = new Stand();
  const other = new Stand();
  await stand.toldOf(1);
  await stand.looked(1);
  writeFileSync(stand.at("place", "file"), "other");
  stand.close();
  const { looks } = stand;
  await other.looked(3);
  expect([stand.told, stand.looks]).toEqual([1, looks]);
});
