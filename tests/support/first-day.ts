import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { DEVELOPMENT_SERVER_NAME, developmentCertificates } from "../../src/cli/development/certificates.ts";
import { CUSTOMER_MASTER_PROTO_FOLDER, startCustomerMaster } from "../../src/cli/development/customer-master.ts";
import { KNOWN_CUSTOMERS } from "../../src/cli/development/customers.ts";
import { freePorts } from "./ports.ts";
import { environmentOf, run } from "./stc.ts";
import { until } from "./until.ts";
import { PROJECT } from "./world.ts";

/** What a newcomer does on the first day, in a home of their own. Each step takes the milliseconds of its commands. */
export class FirstDay {
  readonly #home = mkdtempSync(join(tmpdir(), "stc first day "));
  readonly #clone = join(this.#home, "clone");
  readonly #service = join(this.#home, "my service");
  readonly #prefix = join(this.#home, "prefix");
  readonly #installedService = join(this.#home, "installed service");
  readonly #port = freePorts();
  readonly #env: Record<string, string>;
  #running: Bun.Subprocess | undefined;

  /** @param cache folder of downloaded packages, so that a warm one leaves the network out */
  constructor(cache: string) {
    const { NODE_EXTRA_CA_CERTS = "" } = process.env;
    this.#env = {
      HOME: this.#home,
      PATH: [join(this.#prefix, "bin"), dirname(Bun.which("node") ?? ""), "/usr/bin", "/bin"].join(delimiter),
      BUN_INSTALL_CACHE_DIR: cache,
      STC_PORT: String(this.#port),
      // npm reaches the registry through it where a proxy ends TLS.
      NODE_EXTRA_CA_CERTS,
    };
  }

  /** Clones, installs, starts the development stand and makes a governed call. */
  async cloneToCall(): Promise<number> {
    const start = performance.now();
    await this.#run(["git", "clone", "-q", PROJECT, this.#clone], this.#home);
    await this.#run([process.execPath, "install", "--frozen-lockfile", "--production", "--silent"], this.#clone);
    const stc = this.#stc(this.#clone);
    await this.#serve([...stc, "serve", "--dev"]);
    const args = { customerId: KNOWN_CUSTOMERS.johnSmith };
    const answer = await this.#call(stc, { permission: "customer-data:read", tool: "get_customer", args });
    const elapsed = performance.now() - start;
    await this.#stop();
    if (!answer.includes('"status": "success"')) throw new Error(answer);
    return elapsed;
  }

  /** Runs `stc init`, starts the service and calls its own tool. */
  async initToCall(): Promise<number> {
    const start = performance.now();
    const stc = this.#stc();
    await this.#run([...stc, "init", this.#service]);
    await this.#serve([...stc, "serve", "--config", join(this.#service, "stc.yaml")]);
    const keys = join(this.#service, "keys");
    const answer = await this.#call(stc, {
      keys,
      permission: "notes:read",
      tool: "search_notes",
      args: { word: "tea" },
    });
    const elapsed = performance.now() - start;
    await this.#stop();
    if (!answer.includes('"status": "success"') || answer.includes("ada@example.com")) throw new Error(answer);
    return elapsed;
  }

  /** Imports a method of the stand-in service, accepts fields by hand, and calls it. After `initToCall`. */
  async importToCall(): Promise<number> {
    const certificates = await developmentCertificates(join(this.#home, "certificates"), Date.now());
    const master = await startCustomerMaster({ certificates, port: 0 });
    try {
      const { rootCert, clientCert, clientKey } = certificates.paths;
      const tls = { rootCert, clientCert, clientKey, serverName: DEVELOPMENT_SERVER_NAME };
      const system = { endpoint: `127.0.0.1:${master.port}`, proto: CUSTOMER_MASTER_PROTO_FOLDER, tls };
      const config = join(this.#service, "stc.yaml");
      appendFileSync(config, `  customers: ${JSON.stringify(system)}\n`);
      const start = performance.now();
      const tools = join(this.#service, "tools");
      const stc = this.#stc();
      await this.#run([...stc, "import", "grpc", "customers", "GetCustomer", "--out", tools, "--config", config]);
      const path = join(tools, "get_customer.tool.yaml");
      const accepted = readFileSync(path, "utf8").replace(/^ {2}# (customer\.(?:customerId|status|email): )/gm, "  $1");
      writeFileSync(path, accepted);
      await this.#run([...stc, "check", "--config", config]);
      await this.#serve([...stc, "serve", "--config", config]);
      const keys = join(this.#service, "keys");
      const args = { customerId: KNOWN_CUSTOMERS.johnSmith };
      const answer = await this.#call(stc, { keys, permission: "customers:read", tool: "get_customer", args });
      const elapsed = performance.now() - start;
      await this.#stop();
      const { result } = JSON.parse(answer);
      const { customerId, status, email, ...others } = result.customer;
      const isAsAccepted = customerId === args.customerId && status === "ACTIVE" && Object.keys(others).length === 0;
      if (!isAsAccepted || !/^j\*+@/.test(email)) throw new Error(answer);
      return elapsed;
    } finally {
      await master.close();
    }
  }

  /** Installs a package with npm, into a home without its packages, where no Bun is on PATH. */
  async install(tarball: string): Promise<number> {
    if (Bun.which("bun", { PATH: this.#env["PATH"] ?? "" }) !== null)
      throw new Error("remove Bun from the folders of Node");
    const start = performance.now();
    await this.#run(["npm", "install", "--global", "--no-audit", "--no-fund", "--prefix", this.#prefix, tarball]);
    return performance.now() - start;
  }

  /** Runs `stc init` of the installed package, starts the service and calls its own tool. The service goes on. After `install`. */
  async installedInitToCall(): Promise<number> {
    const start = performance.now();
    const service = this.#installedService;
    await this.#run(["stc", "init", service]);
    await this.#serve([join(this.#prefix, "bin/stc"), "serve", "--config", join(service, "stc.yaml")]);
    const keys = join(service, "keys");
    const args = { word: "tea" };
    const answer = await this.#call(["stc"], { keys, permission: "notes:read", tool: "search_notes", args });
    const elapsed = performance.now() - start;
    if (!answer.includes('"status": "success"') || answer.includes("ada@example.com")) throw new Error(answer);
    return elapsed;
  }

  /** Makes a call that asks a person, approves it, and makes it again. After `installedInitToCall`. */
  async approvalToCall(): Promise<number> {
    const start = performance.now();
    const inService = { cwd: this.#installedService, env: this.#env };
    const sh = (line: string) => run(["sh", "-ec", line], inService);
    const url = `--url ${this.#url}`;
    await sh("stc token --keys keys --sub agent-1 --permission notes:write > agent.token");
    const add = `stc call add_note '{"title":"Mate","text":"70 degrees."}' --token-file agent.token ${url}`;
    const asked = await sh(add);
    const { id } = JSON.parse(asked.out).approval;
    await sh("stc token --keys keys --operator --sub me > operator.token");
    const approved = await sh(`stc approvals approve ${id} --token-file operator.token ${url}`);
    const added = await sh(add);
    const elapsed = performance.now() - start;
    if (asked.code === 0 || approved.code !== 0 || added.code !== 0)
      throw new Error(asked.out + approved.err + added.out);
    return elapsed;
  }

  /** Verifies the audit of the installed service with its public key. After `approvalToCall`. */
  async verifyAudit(): Promise<number> {
    const start = performance.now();
    const audit = join(this.#installedService, "var/audit");
    const key = join(this.#installedService, "audit-public.pem");
    writeFileSync(key, await this.#run(["stc", "audit", "keys", "--key", `${audit}.key`]));
    const verified = await this.#run(["stc", "audit", "verify", "--dir", audit, "--key", key]);
    const elapsed = performance.now() - start;
    await this.#stop();
    if (!verified.endsWith("\nok\n")) throw new Error(verified);
    return elapsed;
  }

  async close(): Promise<void> {
    await this.#stop();
    rmSync(this.#home, { recursive: true, force: true });
  }

  /** Returns the command line of a copy of this repository. */
  #stc(project = PROJECT): readonly string[] {
    const flags = ["--no-env-file", `--config=${join(project, "bunfig.toml")}`, "--no-install"];
    return [process.execPath, ...flags, join(project, "src/cli/main.ts")];
  }

  async #run(argv: readonly string[], cwd = this.#home): Promise<string> {
    const { code, out, err } = await run(argv, { cwd, env: this.#env });
    if (code !== 0) throw new Error(`${argv.slice(-4).join(" ")}: ${code}: ${err}${out}`);
    return out;
  }

  /** Starts the service and waits until it takes calls. */
  async #serve(argv: readonly string[]): Promise<void> {
    this.#running = Bun.spawn([...argv], {
      cwd: this.#home,
      env: environmentOf(this.#env),
      stdio: ["ignore", "ignore", "ignore"],
    });
    await until("the service", async () => {
      const isReady = await fetch(`${this.#url}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      );
      return isReady || undefined;
    });
  }

  get #url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Calls as an agent with one permission. */
  async #call(stc: readonly string[], { keys, permission, tool, args }: Call): Promise<string> {
    const where = keys === undefined ? [] : ["--keys", keys];
    const token = await this.#run([...stc, "token", ...where, "--sub", "agent-1", "--permission", permission]);
    const file = join(this.#home, "agent.token");
    writeFileSync(file, token);
    return this.#run([...stc, "call", tool, JSON.stringify(args), "--token-file", file, "--url", this.#url]);
  }

  async #stop(): Promise<void> {
    this.#running?.kill("SIGTERM");
    await this.#running?.exited;
    this.#running = undefined;
  }
}

interface Call {
  readonly keys?: string;
  readonly permission: string;
  readonly tool: string;
  readonly args: object;
}
