import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseAllDocuments, stringify } from "yaml";
import type { Loose } from "../support/asking-service.ts";
import { findHelm, findKubectl } from "../support/kubectl.ts";
import { freePorts } from "../support/ports.ts";
import { type Ended, run } from "../support/stc.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

/**
 * Kubernetes' own API server, controllers and scheduler, built from their Go modules (`tests/fleet/kubernetes/go.mod`), over Debian's
 * etcd. KWOK stands in for the kubelets: pods become ready without running. Nothing enforces network policies, and no image is pulled.
 */
const SOURCE = join(PROJECT, "tests/fleet/kubernetes");
const BINARIES = join(PROJECT, "var/fleet/kubernetes");
const KWOK = "sigs.k8s.io/kwok@v0.8.0";
/** Of KWOK's module: what happens to nodes, pods and claims. */
const STAGES = ["node/fast", "node/heartbeat", "pod/fast", "volume/fast"];
const PROGRAMS = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
const VERSION = "v1.37.2";
const NODES = ["node-a", "node-b", "node-c"];
const LABELS = { "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "node-role.kubernetes.io/gate": "" };
const RESOURCES = { cpu: "32", memory: "256Gi", "ephemeral-storage": "512Gi", pods: "110" };
/** A storage class in addition to the default, `kwok-volume`. */
const FAST = "fast";
/** The API server's certificate names it, and the tokens' issuer is its own address, so that a verifier can fetch its keys. */
const HOST = "127.0.0.1";
const ADMINISTRATOR = "administrator-token";

/** Builds what is not built yet: about 25 minutes of processor time, once, with the results below `var/` and in Go's build cache. */
export async function buildKubernetes(): Promise<void> {
  mkdirSync(BINARIES, { recursive: true });
  const version = [`gitVersion=${VERSION}`, "gitMajor=1", "gitMinor=37"];
  const flags = version.map((each) => `-X k8s.io/component-base/version.${each}`).join(" ");
  const packages = PROGRAMS.map((name) => `k8s.io/kubernetes/cmd/${name}`);
  await go(["build", "-p", "1", "-ldflags", `-s -w ${flags}`, "-o", `${BINARIES}/`, ...packages]);
  const [path, release] = KWOK.split("@");
  await go(["install", "-p", "1", "-ldflags", "-s -w", `${path}/cmd/kwok@${release}`], {
    GOBIN: BINARIES,
  });
}

async function go(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<string> {
  const program = Bun.which("go") ?? Bun.which("go", { PATH: "/usr/local/go/bin" });
  if (program === null) throw new Error("this suite builds Kubernetes: install Go 1.26 or later");
  // The least priority: the linker alone takes 2.7 GB and both processors.
  const child = Bun.spawn(["nice", "-n", "19", program, ...args], {
    ...{ cwd: SOURCE, env: { ...process.env, ...env } },
    ...{ stdin: "ignore", stdout: "pipe", stderr: "inherit" },
  });
  const out = await new Response(child.stdout).text();
  if ((await child.exited) !== 0) throw new Error(`go ${args.join(" ")} failed`);
  return out;
}

/** A control plane of real programs, with three simulated nodes and a default storage class. */
export class Kubernetes {
  readonly #folder = mkdtempSync(join(tmpdir(), "stc-kubernetes-"));
  readonly #port = freePorts();
  readonly #children: Bun.Subprocess[] = [];
  readonly url = `https://${HOST}:${this.#port}`;
  readonly kubeconfig = join(this.#folder, "kubeconfig");
  /** The certificate of the API server, and of the authority that issued it. */
  readonly caFile = join(this.#folder, "certificates/apiserver.crt");
  readonly #keyFile = join(this.#folder, "service-accounts.pem");

  async start(): Promise<void> {
    await this.#startServer();
    const client = ["--kubeconfig", this.kubeconfig];
    const alone = [...client, "--leader-elect=false", "--secure-port=0"];
    const signing = ["--service-account-private-key-file", this.#keyFile, "--root-ca-file", this.caFile];
    this.#run("kube-controller-manager", [...alone, ...signing]);
    this.#run("kube-scheduler", alone);
    await this.#startNodes(client);
  }

  /** Runs kubectl, and fails when it fails. */
  async kubectl(...args: string[]): Promise<string> {
    return whole(await this.tryKubectl(args));
  }

  tryKubectl(args: readonly string[], stdin = ""): Promise<Ended> {
    return this.#client(findKubectl(), args, stdin);
  }

  /** Runs helm, and fails when it fails. */
  async helm(...args: string[]): Promise<string> {
    return whole(await this.tryHelm(args));
  }

  tryHelm(args: readonly string[]): Promise<Ended> {
    return this.#client(findHelm(), args);
  }

  /** Server-side apply, which refuses fields that the API server does not know. */
  tryApply(objects: readonly object[], ...more: string[]): Promise<Ended> {
    return this.tryKubectl(
      ["apply", "--server-side", "--validate=strict", "--filename", "-", ...more],
      yamlOf(objects),
    );
  }

  async apply(objects: readonly object[], ...more: string[]): Promise<string> {
    return whole(await this.tryApply(objects, ...more));
  }

  async read(kind: string, namespace: string, ...more: string[]): Promise<readonly Loose[]> {
    const text = await this.kubectl("get", kind, "--namespace", namespace, "--output", "json", ...more);
    return JSON.parse(text).items;
  }

  async end(): Promise<void> {
    for (const child of this.#children) child.kill("SIGKILL");
    await Promise.all(this.#children.map(({ exited }) => exited));
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #startServer(): Promise<void> {
    const etcd = Bun.which("etcd", { PATH: `${process.env["PATH"]}:/usr/sbin` });
    if (etcd === null) throw new Error("this suite needs etcd: apt-get install etcd-server");
    const [clients, peers] = [freePorts(), freePorts()].map((port) => `http://${HOST}:${port}`) as [string, string];
    this.#run(
      "etcd",
      [
        ...["--data-dir", join(this.#folder, "etcd"), "--listen-client-urls", clients],
        ...["--advertise-client-urls", clients, "--listen-peer-urls", peers],
        ...["--initial-advertise-peer-urls", peers, "--initial-cluster", `default=${peers}`],
      ],
      etcd,
    );
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    writeFileSync(this.#keyFile, privateKey.export({ type: "pkcs8", format: "pem" }), { mode: 0o600 });
    const tokens = join(this.#folder, "tokens.csv");
    writeFileSync(tokens, `${ADMINISTRATOR},administrator,administrator,"system:masters"\n`, { mode: 0o600 });
    this.#run("kube-apiserver", [
      ...["--etcd-servers", clients, "--bind-address", HOST, "--secure-port", String(this.#port)],
      ...["--cert-dir", join(this.#folder, "certificates"), "--service-cluster-ip-range", "10.96.0.0/16"],
      ...["--service-account-key-file", this.#keyFile, "--service-account-signing-key-file", this.#keyFile],
      ...["--service-account-issuer", this.url, "--api-audiences", this.url],
      ...["--token-auth-file", tokens, "--authorization-mode", "RBAC", "--allow-privileged"],
      // etcd 3.4 cannot begin a watch with a list: the server says so at once, and its clients list instead.
      ...["--feature-gates", "WatchList=false"],
    ]);
    await until("the API server", () => this.#isReady());
    writeFileSync(this.kubeconfig, stringify(this.#kubeconfig()), { mode: 0o600 });
  }

  async #isReady(): Promise<true | undefined> {
    const headers = { authorization: `Bearer ${ADMINISTRATOR}` };
    try {
      const ca = readFileSync(this.caFile, "utf8");
      return (await fetch(`${this.url}/readyz`, { headers, tls: { ca } })).ok || undefined;
    } catch {
      return undefined;
    }
  }

  #kubeconfig(): object {
    const cluster = { server: this.url, "certificate-authority": this.caFile };
    return {
      ...{ apiVersion: "v1", kind: "Config", "current-context": "fleet" },
      clusters: [{ name: "fleet", cluster }],
      users: [{ name: "administrator", user: { token: ADMINISTRATOR } }],
      contexts: [{ name: "fleet", context: { cluster: "fleet", user: "administrator" } }],
    };
  }

  async #startNodes(client: readonly string[]): Promise<void> {
    const { Dir: module } = JSON.parse(await go(["mod", "download", "-json", KWOK])) as { Dir: string };
    const documents = [
      ...filesOf(STAGES.map((stage) => join(module, "kustomize/stage", stage))),
      join(SOURCE, "stages.yaml"),
    ].flatMap((file) => parseAllDocuments(readFileSync(file, "utf8")).map((document) => document.toJS() as Loose));
    const stages = join(this.#folder, "stages.yaml");
    const text = yamlOf(documents.filter(({ kind }) => kind === "Stage"));
    writeFileSync(stages, text.replaceAll("== 'kwok-volume'", `in ['kwok-volume', '${FAST}']`));
    this.#run("kwok", [...client, "--manage-all-nodes", "--config", stages]);
    const nodes = NODES.map((name) => ({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name, labels: { ...LABELS, "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": name } },
      status: { allocatable: RESOURCES, capacity: RESOURCES },
    }));
    const classes = documents.filter(({ kind }) => kind === "StorageClass");
    const fast = classes.map((each) => ({ ...each, metadata: { name: FAST } }));
    await this.apply([...nodes, ...classes, ...fast]);
    await this.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=300s");
  }

  #client(program: string | undefined, args: readonly string[], stdin?: string): Promise<Ended> {
    if (program === undefined) throw new Error("this suite needs kubectl and helm: run `bun install` on Linux (x64)");
    // helm keeps its caches below HOME.
    const env = { KUBECONFIG: this.kubeconfig, HOME: this.#folder };
    return run([program, ...args], { env, ...(stdin !== undefined && { stdin }) });
  }

  /** Ends with the whole control plane; what it prints is in the folder while it runs. */
  #run(name: string, args: readonly string[], program = join(BINARIES, name)): void {
    const log = openSync(join(this.#folder, `${name}.log`), "w");
    this.#children.push(
      Bun.spawn([program, ...args], {
        ...{ cwd: this.#folder, stdin: "ignore", stdout: log, stderr: log },
      }),
    );
  }
}

function filesOf(folders: readonly string[]): readonly string[] {
  return folders.flatMap((folder) =>
    readdirSync(folder)
      .filter((name) => name.endsWith(".yaml"))
      .map((name) => join(folder, name)),
  );
}

/** The programs read YAML 1.1, in which an unquoted `yes` is a boolean. */
function yamlOf(objects: readonly object[]): string {
  return objects.map((each) => stringify(each, { version: "1.1" })).join("---\n");
}

function whole({ code, out, err }: Ended): string {
  if (code !== 0) throw new Error(err + out);
  return out;
}
