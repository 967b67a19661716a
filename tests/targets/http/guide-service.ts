import { expect } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { makeCertificates } from "../../../src/cli/development/certificates.ts";
import { AskingService, type CallExtras, type Loose, type Reply } from "../../support/asking-service.ts";

interface Guide {
  /** The guide's configuration of its system, as YAML. */
  readonly settings: string;
  readonly system: string;
  /** The URL of the API in the guide. */
  readonly baseUrl: string;
  /** Written into the service's folder. */
  readonly files: Readonly<Record<string, string>>;
  /** Replaces the guide's. */
  readonly auth?: ((origin: string) => object) | undefined;
}

/** The service of a guide, with a real API behind it over TLS. */
export class GuideService extends AskingService {
  readonly #permissions: string[];
  #api: Bun.Server<undefined> | undefined;

  /** @param permissions of the agent that calls */
  constructor(permissions: readonly string[]) {
    super();
    this.#permissions = [...permissions];
  }

  protected async serve(guide: Guide, fetch: (request: Request) => Response | Promise<Response>): Promise<void> {
    const certificates = await makeCertificates({ notBefore: new Date(0), notAfter: new Date("2099-01-01") });
    this.#api = Bun.serve({ hostname: "127.0.0.1", port: 0, tls: certificates.server, fetch });
    const files = { ...guide.files, "certs/internal-ca.pem": certificates.rootCert };
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(join(this.folder, path, ".."), { recursive: true });
      writeFileSync(join(this.folder, path), text);
    }
    const { systems } = parse(guide.settings);
    const { http }: Loose = systems[guide.system];
    expect(http.baseUrl).toBe(guide.baseUrl);
    // The guide's API is in an internal network; this one is on this host.
    const origin = `https://localhost:${this.#api.port}`;
    const { pathname } = new URL(guide.baseUrl);
    http.baseUrl = pathname === "/" ? origin : `${origin}${pathname}`;
    http.addresses = ["loopback"];
    if (guide.auth !== undefined) http.auth = guide.auth(origin);
    await this.run({ tools: ["tools"], systems, approvals: { store: "sqlite://approvals.sqlite" } });
  }

  async call(tool: string, args: unknown, { approval }: CallExtras = {}): Promise<Reply> {
    const token = await this.agent({ permissions: this.#permissions });
    return this.send("POST", "/call", { token, body: { tool, args, ...(approval && { approval }) } });
  }

  override async end(): Promise<void> {
    await super.end();
    await this.#api?.stop(true);
  }
}
