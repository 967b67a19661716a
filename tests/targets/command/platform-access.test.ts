import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { platformAccess } from "../../../src/targets/command/platform.ts";
import { readConfig } from "../../support/build.ts";
import { contextFor } from "../../support/kinds.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const folder = temporaryDirectory();

function accessOf(systems: Readonly<Record<string, unknown>>) {
  const jwt = { issuers: [{ issuer: "https://x", jwksUri: "https://x/jwks" }] };
  const written = { tools: ["tools"], audit: { dir: "audit" }, jwt, systems };
  const config = readConfig(written, { folder, environment: {}, origin: "config" });
  return Object.fromEntries(platformAccess(contextFor(config, "cli")));
}

test("a kubeconfig, the files it names, and its clusters' addresses", () => {
  const kubeconfig = {
    clusters: [
      { name: "a", cluster: { server: "https://a.example:6443", "certificate-authority": "ca.pem" } },
      { name: "b", cluster: { server: "https://b.example", "proxy-url": "http://proxy:3128" } },
    ],
    users: [{ name: "u", user: { tokenFile: "/var/run/token", "client-key": "keys/key.pem" } }],
  };
  writeFileSync(join(folder, "kubeconfig"), JSON.stringify(kubeconfig));
  expect(accessOf({ kubernetes: { kubeconfig: "kubeconfig" } })["kubernetes"]).toEqual({
    reads: [join(folder, "kubeconfig"), join(folder, "ca.pem"), join(folder, "keys/key.pem"), "/var/run/token"],
    ports: [6443, 443, 3128],
  });
});

test.each([
  ["loki", { address: "http://loki:3100", bearerTokenFile: "token" }, { reads: ["token"], ports: [3100] }],
  ["loki", { address: "https://loki" }, { reads: [], ports: [443] }],
  ["loki", {}, { reads: [], ports: [] }],
  ["argocd", { server: "argocd", configFile: "c", rootCert: "r" }, { reads: ["c", "r"], ports: [443] }],
  ["argocd", { server: "[::1]:8080" }, { reads: [], ports: [8080] }],
  ["kubernetes", { kubeconfig: "missing" }, { reads: [], ports: [] }],
] as const)("%s %j", (system, settings, { reads, ports }) => {
  expect(accessOf({ [system]: settings })[system]).toEqual({
    reads: reads.map((path) => join(folder, path)),
    ports: [...ports],
  });
});
