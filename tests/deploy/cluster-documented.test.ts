import { expect, test } from "bun:test";
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";
import { readConfig } from "../support/build.ts";
import { blockNamed, textOf } from "../support/documented.ts";
import { CHART, type Document, documentsOf, ofKind, podTemplateOf, specOf } from "./documents.ts";
import { configurationOf, HELM, helm, renderedAgent } from "./helm.ts";
import { VERSIONS, validatorOf } from "./kubernetes-schemas.ts";

const PAGE = "docs/cluster.md";
const TOOL = `tools:
  - name: list_orders
    description: The newest orders
    classification: read
    permissions: { required: [orders:read] }
`;

/** Pastes the page's values into files, and renders them with the options of the page's `helm install`. */
async function pasted(...blocks: readonly string[]): Promise<readonly Document[]> {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "stc-cluster-"));
  try {
    writeFileSync(join(folder, "orders.yaml"), TOOL);
    const files = blocks.map((name, at) => {
      const file = join(folder, `values-${at}.yaml`);
      writeFileSync(file, blockNamed(`${PAGE}: ${name}`).text);
      return file;
    });
    const [, set = "", path = ""] = /--set-file '([^=]+)=([^']+)'/.exec(blockNamed(`${PAGE}: helm install`).text) ?? [];
    const values = files.flatMap((file) => ["--values", file]);
    const { code, out, err } = await helm(
      ...["template", "gate", CHART, "--namespace", "safe-tool-call"],
      ...[...values, "--set-file", `${set}=${join(folder, path)}`],
    );
    expect({ code, err }).toEqual({ code: 0, err: "" });
    return documentsOf(out);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test.skipIf(HELM === undefined)("the values of one replica give valid objects and a valid configuration", async () => {
  const documents = await pasted("image:");
  for (const version of VERSIONS) expect(documents.flatMap(validatorOf(version))).toEqual([]);
  const { written } = configurationOf(documents);
  const config = readConfig(written, { folder: "/etc/stc", environment: {}, origin: PAGE });
  expect(ofKind(documents, "ConfigMap").flatMap(({ data }) => data?.["orders.yaml"] ?? [])).toEqual([TOOL]);
  // The agent's token is for the audience that the configuration names, and agents call the Service of that name.
  const { volumes } = parse(blockNamed(`${PAGE}: volumes:`).text) as {
    volumes: { projected: { sources: { serviceAccountToken: { audience: string } }[] } }[];
  };
  const [audience] = volumes.flatMap(({ projected }) =>
    projected.sources.map(({ serviceAccountToken }) => serviceAccountToken.audience),
  );
  expect(audience).toBe(String(config.jwt.issuers[0]?.audience));
  const [, host = ""] = /`http:\/\/([^:`]+):8787`/.exec(textOf(PAGE)) ?? [];
  expect(config.server.allowedHosts).toContain(host);
});

test.skipIf(HELM === undefined)("and those of several replicas, put on top of them", async () => {
  const documents = await pasted("image:", "replicaCount: 3");
  for (const version of VERSIONS) expect(documents.flatMap(validatorOf(version))).toEqual([]);
  expect(specOf<{ replicas: number }>(documents, "StatefulSet").replicas).toBe(3);
  const command = blockNamed(`${PAGE}: kubectl create secret generic safe-tool-call-database`).text;
  const secret = podTemplateOf(documents)?.spec?.volumes?.find(({ name }) => name === "stc-postgresql")?.secret;
  expect(command).toContain(`generic ${secret?.secretName} `);
  expect(command).toContain(`--from-literal=${secret?.items?.[0]?.key}=`);
});

test.skipIf(HELM === undefined)("and those of a database for the audit, put on top of these", async () => {
  const documents = await pasted("image:", "replicaCount: 3", "audit:");
  for (const version of VERSIONS) expect(documents.flatMap(validatorOf(version))).toEqual([]);
  const { audit } = readConfig(configurationOf(documents).written, {
    folder: "/etc/stc",
    environment: {},
    origin: PAGE,
  });
  expect(audit.export).toMatchObject([{ type: "postgres", urlFile: audit.storeUrlFile ?? "" }]);
});

test.skipIf(HELM === undefined)("and those of a hub, to which a sidecar with the page's values connects", async () => {
  const hub = await pasted("image:", "replicaCount: 3", "hub:");
  const sidecar = await renderedAgent(parse(blockNamed(`${PAGE}: safe-tool-call:`).text) as object);
  for (const version of VERSIONS) expect([...hub, ...sidecar].flatMap(validatorOf(version))).toEqual([]);
  const read = (documents: readonly Document[]) =>
    readConfig(configurationOf(documents).written, { folder: "/etc/stc", environment: {}, origin: PAGE });
  const url = new URL(read(sidecar).hub?.url ?? "");
  const services = ofKind(hub, "Service").map(({ metadata: { name, namespace }, spec }) => [
    `${name}.${namespace}.svc`,
    (spec as { ports: { port: number }[] }).ports[0]?.port,
  ]);
  expect(services).toContainEqual([url.hostname, Number(url.port)]);
  const { tokens: [accepted] = [], members: [member] = [] } = read(hub).hub ?? {};
  const template = podTemplateOf(sidecar)?.spec;
  const shown = template?.volumes?.find(({ name }) => name === "stc-hub-token")?.projected?.sources?.[0];
  expect(shown?.serviceAccountToken?.audience).toBe(String(accepted?.audience));
  expect(`system:serviceaccount:agents:${template?.serviceAccountName}`).toMatch(
    new RegExp(`^${member?.subject?.replace("*", "[^/]*")}$`),
  );
});

test("the templates that an agent's chart includes exist, and the example includes each of them", () => {
  const defined = [...readFileSync(join(CHART, "templates/_sidecar.tpl"), "utf8").matchAll(/define "([^"]+)"/g)];
  const included = (text: string) => new Set([...text.matchAll(/include "([^"]+)"/g)].map(([, name]) => name ?? ""));
  const example = readFileSync(join(CHART, "../examples/agent/templates/deployment.yaml"), "utf8");
  const names = new Set(defined.map(([, name]) => name ?? ""));
  expect(included(blockNamed(`${PAGE}: {{- $proxy`).text)).toEqual(names);
  expect(included(example)).toEqual(names);
  const { dependencies } = parse(blockNamed(`${PAGE}: dependencies:`).text) as { dependencies: object[] };
  const chart = parse(readFileSync(join(CHART, "../examples/agent/Chart.yaml"), "utf8")) as { dependencies: object[] };
  expect(dependencies).toMatchObject(
    chart.dependencies.map((dependency) => ({ ...dependency, repository: expect.any(String) })),
  );
});
