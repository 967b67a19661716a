import { StartupError } from "../../core/errors.ts";
import type { Section } from "./tenant-sections.ts";

/** A tenant's configuration, or what is wrong with it. */
export interface ReadTenant<Read> {
  readonly name: string;
  readonly config?: Read | undefined;
  /** Messages, each with the name of the configuration's file. */
  readonly problems: readonly string[];
}

/** Key of the other configurations in the same file. A spread copy keeps it; `Object.keys` does not list it. */
export const FAMILY = Symbol("tenants");

export interface Family<Read> {
  /** The service's configuration as written, with those of all tenants. */
  readonly written: Section;
  /** All tenants, in the order in which they are written; none in a tenant's configuration. */
  readonly tenants: readonly ReadTenant<Read>[];
}

/** Only tenants have problems: a running service adopts everything else. A start is refused. */
export class TenantProblems<Read> extends StartupError {
  /** The configuration of the service, with all tenants. */
  readonly config: Read;

  constructor(problems: readonly string[], config: Read) {
    super(problems);
    this.config = config;
  }
}

/** The service itself has problems, and tenants may have some, too. */
export class ServiceProblems<Read> extends StartupError {
  readonly tenants: readonly ReadTenant<Read>[];

  constructor(problems: readonly string[], tenants: readonly ReadTenant<Read>[]) {
    super(problems);
    this.tenants = tenants;
  }
}
