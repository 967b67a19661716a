import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DEVELOPMENT_SERVER_NAME, developmentCertificates } from "../../src/cli/development/certificates.ts";
import { CUSTOMER_MASTER_PROTO_FOLDER, startCustomerMaster } from "../../src/cli/development/customer-master.ts";
import { KNOWN_CUSTOMERS } from "../../src/cli/development/customers.ts";
import { environmentOf, freePorts, run } from "./stc.ts";
import { until } from "./until.ts";
import { PROJECT } from "./world.ts";

/** What a newcomer does on the first day, in a home of their own. Each step takes the milliseconds of its commands. */
export class FirstDay {
  readonly #home = mkdtempSync(join(tmpdir(), "stc first day "));
  readonly #clone = join(this.#home, "clone");
  readonly #service = join(this.#home, "my service");
  readonly #port = freePorts();
  readonly #env: Record<string, string>;
  #running: Bun.Subprocess | undefined;

  /** @param cache folder of downloaded packages, so that a warm one leaves the network out */
  constructor(cache: string) {
    this.#env = { HOME: this.#home, BUN_INSTALL_CACHE_DIR: cache, STC_PORT: String(this.#port) };
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
