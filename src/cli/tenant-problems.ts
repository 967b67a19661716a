import { StartupError } from "../core/errors.ts";
import type { Config } from "../runtime/config/config.ts";
import { asOfService, problemOf } from "../runtime/config/tenants.ts";

/** The problems of a service and of its tenants: each once, with the name of the tenant. */
export class Problems {
  readonly #own = new Set<string>();
  readonly #tenants = new Set<string>();

  /** @param config that of the service itself, or of the tenant that has the problems */
  add(config: Config, problems: readonly string[]): void {
    for (const each of problems) {
      const problem = problemOf(config, each);
      if (config.tenant === undefined) this.#own.add(problem);
      else if (!this.#own.has(asOfService(config, problem))) this.#tenants.add(problem);
    }
  }

  /** Runs one step, and keeps its problems. Rejects with any other error. */
  async collect(config: Config, step: () => Promise<unknown>): Promise<void> {
    try {
      await step();
    } catch (error) {
      if (!(error instanceof StartupError)) throw error;
      this.add(config, error.problems);
    }
  }

  /** Returns those of the service itself first. */
  all(): readonly string[] {
    return [...this.#own, ...this.#tenants];
  }

  /** @throws {StartupError} */
  assertNone(): void {
    const all = this.all();
    if (all.length > 0) throw new StartupError(all);
  }
}
