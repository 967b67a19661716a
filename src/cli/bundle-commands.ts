import {
  argument,
  command,
  defaulted,
  flag,
  group,
  instant,
  JSON_FLAG,
  longDuration,
  option,
  repeated,
  required,
  text,
  type ValueKind,
} from "./command.ts";

const version: ValueKind<number> = {
  placeholder: "version",
  read: (typed) => (/^[1-9]\d{0,14}$/.test(typed) ? Number(typed) : undefined),
  expected: "must be a whole number from 1",
};

const percent: ValueKind<number> = {
  placeholder: "percent",
  read: (typed) => (/^\d{1,3}$/.test(typed) && Number(typed) <= 100 ? Number(typed) : undefined),
  expected: "must be a whole number from 0 to 100",
};

const port: ValueKind<number> = {
  placeholder: "port",
  read: (typed) => (/^\d{1,5}$/.test(typed) && Number(typed) <= 65_535 ? Number(typed) : undefined),
  expected: "must be a port from 0 to 65535",
};

const label: ValueKind<readonly [string, string]> = {
  placeholder: "name=value",
  read(typed) {
    const [, name = "", value = ""] = /^([^=]+)=(.+)$/.exec(typed) ?? [];
    return name === "" ? undefined : [name, value];
  },
  expected: "must be a name and a value, such as region=eu",
};

const code = () => import("./bundle.ts");
const folder = argument(text("folder"), "folder with bundle.tar.gz and timestamp.json");
const files = { 66: "a file cannot be read", 73: "a file cannot be written" } as const;

export const commands = [
  group("bundle", "Build, sign, verify and serve the policy of a fleet"),
  command({
    name: "bundle build",
    summary: "Pack a folder with policy.yaml, manifests and contracts; the same folder and options give the same bytes",
    arguments: { folder: argument(text("folder"), "folder with the bundle's content") },
    options: {
      out: required(text("folder"), "folder for bundle.tar.gz"),
      fleet: required(text("name"), "name of the fleet"),
      environment: required(text("name"), "name of the environment, such as production"),
      version: required(version, "higher than every version before"),
      previous: option(text("file"), "the bundle that this one follows (default: the one in --out)"),
      createdAt: option(instant, "time of the bundle (default: now)"),
      label: repeated(label, "only for members with this label; repeated: all of them"),
      percent: option(percent, "only for this share of the members"),
      allowCode: flag("accept manifests in TypeScript"),
    },
    exits: { 1: "the folder is no bundle", ...files },
    run: async ({ folder: from }, options) => (await code()).bundleBuild(from, options),
  }),
  command({
    name: "bundle sign",
    summary: "Sign a bundle with an offline key, or write its timestamp with the online key",
    arguments: { folder },
    options: {
      key: required(text("file"), "private key, Ed25519 in PEM: stc audit keys --new creates one"),
      timestamp: flag("write timestamp.json, which names the bundle as the current one until it expires"),
      expires: option(longDuration, "how long the timestamp is valid (default: 1d)"),
    },
    exits: { 1: "the bundle is malformed, or older than the timestamp in the folder", ...files },
    run: async ({ folder: at }, options) => (await code()).bundleSign(at, options),
  }),
  command({
    name: "bundle verify",
    summary: "Check a bundle as a member does, and say what it holds",
    arguments: { folder },
    options: {
      key: repeated(text("file"), "public key of those who sign bundles; may be given several times"),
      timestampKey: repeated(text("file"), "public key that signs timestamps; may be given several times"),
      threshold: defaulted(version, { help: "how many of the keys must have signed", fallback: 1 }),
      fleet: required(text("name"), "name of the fleet"),
      environment: required(text("name"), "name of the environment"),
      minVersion: defaulted(version, { help: "lowest version to accept", fallback: 1 }),
      allowCode: flag("accept manifests in TypeScript"),
      json: JSON_FLAG,
    },
    exits: { 0: "a member would accept it", 1: "refused, with the reason", ...files },
    run: async ({ folder: at }, options) => (await code()).bundleVerify(at, options),
  }),
  command({
    name: "bundle serve",
    summary: "Serve a bundle and its timestamp to members until SIGTERM, and tell them of a change at once",
    arguments: { folder },
    options: {
      host: defaulted(text("address"), { help: "address to listen at", fallback: "127.0.0.1" }),
      port: defaulted(port, { help: "port; 0 chooses one", fallback: 8_790 }),
      certFile: option(text("file"), "certificate of the server, PEM"),
      keyFile: option(text("file"), "private key of the certificate, PEM"),
      clientCaFile: option(text("file"), "certificates that members' certificates must come from, PEM"),
      tokenFile: option(text("file"), "file with the bearer token that members must send"),
    },
    exits: { 1: "the port is taken", ...files },
    run: async ({ folder: at }, options) => (await code()).bundleServe(at, options),
  }),
];
