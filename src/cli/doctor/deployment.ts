import { readLogState } from "../../audit/log-state.ts";
import { logsIn } from "../../audit/logs.ts";
import { errorText } from "../../core/error-text.ts";
import { StartupError } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { present } from "../../core/present.ts";
import { BOUNDED_TEXT_LIMITS, parseStrictJson } from "../../core/strict-json.ts";
import { endedWithin, resultWithin } from "../../core/time-limits.ts";
import type { EpochMs } from "../../core/types.ts";
import { MODULES } from "../../modules.ts";
import { inspectStore, keyProbes, type SystemProbe } from "../../runtime/composition/connections.ts";
import { assemble, type Parts } from "../../runtime/composition/wiring.ts";
import { type Config, pathFrom } from "../../runtime/config/config.ts";
import { processEnvironment } from "../../runtime/config/environment.ts";
import { healthAddress } from "../../runtime/config/file.ts";
import { tenantConfigs } from "../../runtime/config/tenants.ts";
import { connect } from "../client.ts";
import { type ConfigurationOptions, configuration } from "../configuration.ts";
import { clientTls, type TlsFileOptions } from "../connection.ts";
import { ask } from "../health.ts";

export interface DeploymentOptions extends ConfigurationOptions, TlsFileOptions {
  readonly url?: string;
  readonly tokenFile?: string;
}

/** The answer of a system that the configuration names. */
export interface ProbeAnswer extends Pick<SystemProbe, "field" | "name"> {
  readonly problem: string | undefined;
  readonly clock: Clock | undefined;
}

/** Bounds of how far a clock is ahead of this machine's. They differ because a `Date` header has whole seconds. */
export interface Clock {
  readonly aheadMsMin: number;
  readonly aheadMsMax: number;
}

/** The answer of a running service at `/readyz`. */
export interface ReadinessAnswer {
  readonly url: string;
  readonly status: number;
  /** Members of the answer: `reasons`, and details when a token was accepted. */
  readonly state: Readonly<Record<string, unknown>>;
  readonly clock: Clock | undefined;
}

/** Limit for one question to another system: shorter than that of a check, which then has the reason. */
const ANSWER_MS_MAX = 4_500;
const CLOSE_MS_MAX = 1_000;

/** Reads what several checks need, once each, when the first one asks. */
export type Deployment = ReturnType<typeof deploymentOf>;

export async function openDeployment(options: DeploymentOptions): Promise<Deployment> {
  return deploymentOf(await readConfiguration(options), options);
}

/** Returns the same for each tenant of the service. */
export function deploymentsOfTenants({ config }: Deployment, options: DeploymentOptions) {
  return (config === undefined ? [] : tenantConfigs(config)).map((own) => ({
    tenant: present(own.tenant, "the name of a tenant"),
    deployment: deploymentOf({ config: own, problems: [] }, options),
  }));
}

interface ReadConfiguration {
  readonly config: Config | undefined;
  readonly problems: readonly string[];
}

function deploymentOf({ config, problems }: ReadConfiguration, options: DeploymentOptions) {
  const now = (): EpochMs => Date.now();
  const parts = once(() => assembled(config));
  const service = once(() => askService(options, config, now));
  return {
    now,
    /** Undefined when it cannot be read. */
    config,
    problems,
    /** The parts of a service, or the problems that would prevent its start; undefined without a configuration. */
    parts,
    service,
    database: once(async () =>
      config === undefined ? undefined : resultWithin(inspectStore(config, MODULES, now), ANSWER_MS_MAX, tooLate),
    ),
    issuers: once(async () => answersOf(config === undefined ? [] : keyProbes(config, MODULES), now)),
    /** The logs of the audit directory, with what their ends say. */
    audit: once(async () => (config === undefined ? [] : stateOfLogs(pathFrom(config, config.audit.dir)))),
    async close(): Promise<void> {
      const opened = parts();
      await endedWithin(
        opened.then((made) => (made?.parts === undefined ? undefined : made.parts.close())),
        CLOSE_MS_MAX,
      );
    },
  };
}

async function readConfiguration(options: DeploymentOptions): Promise<ReadConfiguration> {
  try {
    return { config: (await configuration(options)).config, problems: [] };
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    return { config: undefined, problems: error.problems };
  }
}

function stateOfLogs(dir: string) {
  return logsIn(dir).map((log) => ({ ...log, ...readLogState(log.dir) }));
}

interface Assembled {
  readonly parts: Parts | undefined;
  readonly problems: readonly string[];
}

async function assembled(config: Config | undefined): Promise<Assembled | undefined> {
  if (config === undefined) return undefined;
  try {
    return { parts: await assemble(config, MODULES), problems: [] };
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    return { parts: undefined, problems: error.problems };
  }
}

function tooLate(): Error {
  return new Error(`no answer within ${ANSWER_MS_MAX / 1_000} s`);
}

/** Asks every system at the same time. Never rejects. */
export function answersOf(probes: readonly SystemProbe[], now: () => EpochMs): Promise<readonly ProbeAnswer[]> {
  return Promise.all(
    probes.map(async ({ field, name, check }) => {
      const sentMs = now();
      try {
        const servedAtMs = await resultWithin(check(), ANSWER_MS_MAX, tooLate);
        const clock = servedAtMs === undefined ? undefined : clockOf(servedAtMs, sentMs, now());
        return { field, name, problem: undefined, clock };
      } catch (error) {
        return { field, name, problem: errorText(error), clock: undefined };
      }
    }),
  );
}

const SECOND_MS = 1_000;

function clockOf(servedAtMs: EpochMs, sentMs: EpochMs, receivedMs: EpochMs): Clock {
  return { aheadMsMin: servedAtMs - receivedMs, aheadMsMax: servedAtMs + SECOND_MS - sentMs };
}

/** Returns the answer of the service that is named or configured; a text: why there is none. */
async function askService(
  options: DeploymentOptions,
  config: Config | undefined,
  now: () => EpochMs,
): Promise<ReadinessAnswer | string> {
  const environment = processEnvironment();
  const named = options.url ?? (environment["STC_URL"] || undefined);
  const configured = config && healthAddress(config.server, config.folder);
  const address = named === undefined ? configured : { url: named };
  if (address === undefined) return "no address is known: give --url";
  const tokenFile = options.tokenFile ?? (environment["STC_TOKEN_FILE"] || undefined);
  const sentMs = now();
  if (tokenFile !== undefined) {
    const client = connect({ ...options, tokenFile, url: address.url });
    const answer = await client.send({ method: "GET", path: "/readyz", timeoutMs: ANSWER_MS_MAX });
    if (answer === undefined) return client.noAnswer();
    const { status, body, servedAt } = answer;
    return { ...address, status, ...parsed(body, servedAt, [sentMs, now()]) };
  }
  try {
    const { status, body, date } = await ask(address, "/readyz", clientTls(options, environment).read());
    const servedAt = Date.parse(date);
    return { ...address, status, ...parsed(jsonOf(body), servedAt, [sentMs, now()]) };
  } catch (error) {
    return `no answer from ${address.url} (${error instanceof Error && "code" in error ? String(error.code) : errorText(error)})`;
  }
}

function parsed(body: unknown, servedAt: number | undefined, [sentMs, receivedMs]: readonly [EpochMs, EpochMs]) {
  const isTold = servedAt !== undefined && !Number.isNaN(servedAt);
  return { state: isTable(body) ? body : {}, clock: isTold ? clockOf(servedAt, sentMs, receivedMs) : undefined };
}

function jsonOf(text: string): unknown {
  try {
    return parseStrictJson(text, BOUNDED_TEXT_LIMITS);
  } catch {
    return undefined;
  }
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= make());
}
