import { afterAll, expect, test } from "bun:test";
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { archive, compile } from "../../deploy/release/binaries.ts";
import { seal, signerOf } from "../../deploy/release/signing.ts";
import { sourceOf } from "../../deploy/release/source.ts";
import { verifyRelease } from "../../deploy/release/verify.ts";
import { run } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

/** Long: two native builds of the binary. The other platforms are built in releases alone: each fetches its own Bun. */
const BUILD_TIMEOUT_MS = 300_000;
const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-two-builds-")));
const source = { ...(await sourceOf()), changed: false };
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A checkout elsewhere, deeper, as a user without development packages has it. */
async function otherCheckout(): Promise<string> {
  const root = join(folder, "a deeper", "checkout");
  mkdirSync(root, { recursive: true });
  const files = ["package.json", "bun.lock", "bunfig.toml", "tsconfig.json", "docs/configuration.schema.json"];
  const parts = [...files, "deploy/patches", "src"];
  for (const part of parts) cpSync(join(PROJECT, part), join(root, part), { recursive: true });
  const install = ["install", "--frozen-lockfile", "--production", "--silent"];
  expect(await run([process.execPath, ...install], { cwd: root })).toMatchObject({ code: 0, err: "" });
  return root;
}

test(
  "two checkouts give the same archive, without their paths, and what is signed is verified",
  async () => {
    const archives: string[] = [];
    for (const [row, root] of [PROJECT, await otherCheckout()].entries()) {
      mkdirSync(join(folder, `bin-${row}`));
      const binary = await compile(join(folder, `bin-${row}`, "stc"), { bun: process.execPath, root });
      const content = readFileSync(binary);
      for (const path of [PROJECT, folder]) expect(content.indexOf(path)).toBe(-1);
      expect((await run([binary, "--version"])).out).toBe(`${source.version}\n`);
      archives.push(await archive(join(folder, `release-${row}`), { binary, platform: "native", source }));
    }
    const [first = "", second = ""] = archives;
    expect(readFileSync(first).equals(readFileSync(second))).toBe(true);
    const list = await run(["tar", "--list", "--file", first]);
    const top = `stc-${source.version}-native/`;
    expect(list.out).toBe(["", "LICENSE", "THIRD_PARTY", "stc"].map((name) => `${top}${name}\n`).join(""));

    const key = join(folder, "key");
    await run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key]);
    const signers = join(folder, "allowed_signers");
    writeFileSync(signers, `safe-tool-call ${readFileSync(`${key}.pub`, "utf8")}`);
    await seal([first], source, signerOf(key, source));
    expect(await verifyRelease(join(folder, "release-0"), signers)).toBe(2);
    appendFileSync(first, "x");
    await expect(verifyRelease(join(folder, "release-0"), signers)).rejects.toThrow("not the one that was signed");
  },
  BUILD_TIMEOUT_MS,
);
