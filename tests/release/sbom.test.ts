import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import Ajv from "ajv";
import { bundledPackages } from "../../deploy/release/packages.ts";
import { RUNTIMES } from "../../deploy/release/runtimes.ts";
import { billOfMaterials } from "../../deploy/release/sbom.ts";
import { PROJECT } from "../support/world.ts";

const SCHEMAS = join(PROJECT, "node_modules/@cyclonedx/cyclonedx-library/res/schema");
const SOURCE = { version: "1.2.3", commit: "0123456789abcdef0123456789abcdef01234567", epochSeconds: 1_000_000_000 };
const text = await billOfMaterials({ ...SOURCE, changed: false });

interface Component {
  readonly "bom-ref": string;
  readonly type: string;
  readonly group?: string;
  readonly name: string;
  readonly version: string;
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
  readonly licenses?: readonly object[];
}

interface Bill {
  readonly serialNumber: string;
  readonly metadata: { readonly timestamp: string; readonly component: Component };
  readonly components: readonly Component[];
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
}

const bill = JSON.parse(text) as Bill;
const libraries = bill.components.filter(({ hashes, type }) => type === "library" && hashes !== undefined);

test("the bill of materials is valid CycloneDX 1.6", () => {
  const schema = (name: string): object =>
    JSON.parse(readFileSync(join(SCHEMAS, `${name}.SNAPSHOT.schema.json`), "utf8")) as object;
  const ajv = new Ajv({ strict: false, validateFormats: false });
  for (const name of ["spdx", "jsf-0.82", "cryptography-defs"]) {
    // The schema refers to the others by the names of their files.
    ajv.addSchema({ ...schema(name), $id: `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json` });
  }
  const validate = ajv.compile(schema("bom-1.6"));
  expect([validate(bill), validate.errors]).toEqual([true, null]);
  expect(validate({ ...bill, serialNumber: "1" })).toBe(false);
});

test("each hash is the one in bun.lock", () => {
  const locked = new Map(
    [...readFileSync(join(PROJECT, "bun.lock"), "utf8").matchAll(/: \["([^"]+)".*"sha512-([^"]+)"\],$/gm)].map(
      ([, id = "", digest = ""]) => [id, digest],
    ),
  );
  expect(libraries.length).toBeGreaterThan(80);
  for (const { group, name, version, hashes } of libraries) {
    const digest = locked.get(`${group === undefined ? "" : `${group}/`}${name}@${version}`) ?? "missing";
    const content = Buffer.from(digest, "base64").toString("hex");
    expect({ name, version, hashes }).toEqual({ name, version, hashes: [{ alg: "SHA-512", content }] });
  }
});

test("it lists the packages of which the bundle contains code, and Bun for each platform, each with a license", async () => {
  const refs = bill.components.map((component) => component["bom-ref"]);
  const expected = (await bundledPackages()).map(({ id }) => `pkg:npm/${id.replace(/^@/, "%40")}`);
  expect(refs.filter((ref) => ref.startsWith("pkg:npm/") && !ref.includes("%40oven/"))).toEqual(expected);
  for (const runtime of RUNTIMES) expect(refs).toContain(`pkg:npm/%40oven/${runtime.package.slice(6)}@${Bun.version}`);
  expect(refs).toContain(`bun/webkit@${process.versions["webkit"]}`);
  expect(refs.filter((ref) => /typescript|bun-types|playwright/.test(ref))).toEqual([]);
  expect(bill.components.filter(({ licenses }) => licenses?.length !== 1)).toEqual([]);
});

test("every reference leads to a component, and every component is reached from the product", () => {
  const product = bill.metadata.component["bom-ref"];
  const refs = [product, ...bill.components.map((component) => component["bom-ref"])];
  expect(new Set(refs).size).toBe(refs.length);
  expect(bill.dependencies.map(({ ref }) => ref)).toEqual(refs);
  const needs = new Map(bill.dependencies.map(({ ref, dependsOn }) => [ref, dependsOn]));
  const reached = new Set<string>();
  const visit = (ref: string): void => {
    if (reached.has(ref)) return;
    reached.add(ref);
    for (const next of needs.get(ref) ?? []) visit(next);
  };
  visit(product);
  expect([...reached].toSorted()).toEqual(refs.toSorted());
});

test("its text depends on the source alone", async () => {
  expect(bill.metadata.component["bom-ref"]).toBe("pkg:npm/safe-tool-call@1.2.3");
  expect(bill.metadata.timestamp).toBe("2001-09-09T01:46:40.000Z");
  expect(await billOfMaterials({ ...SOURCE, changed: false })).toBe(text);
  const other = JSON.parse(await billOfMaterials({ ...SOURCE, commit: "f".repeat(40), changed: false })) as Bill;
  expect(other.serialNumber).not.toBe(bill.serialNumber);
});

test("the table of runtimes has only packages of Bun, each with an integrity of its own", () => {
  expect(RUNTIMES.map((runtime) => runtime.package).filter((name) => !name.startsWith("@oven/bun-"))).toEqual([]);
  expect(RUNTIMES.filter(({ integrity }) => !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity))).toEqual([]);
  expect(new Set(RUNTIMES.map(({ integrity }) => integrity)).size).toBe(RUNTIMES.length);
});
