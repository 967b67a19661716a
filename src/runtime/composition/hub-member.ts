import { randomBytes } from "node:crypto";
import type { Approvals } from "../../approvals/types.ts";
import { present } from "../../core/present.ts";
import type { CertificateEvent } from "../../core/target-kind.ts";
import { VERSION } from "../../core/version.ts";
import type { StateOperations } from "../../database/operations.ts";
import { OPERATED_ADDRESSES } from "../../egress/addresses.ts";
import { RotatingClient } from "../../egress/rotating-client.ts";
import { openHubClient } from "../../hub/client/client.ts";
import type { HubClient } from "../../hub/contract.ts";
import { HubUnavailable } from "../../hub/errors.ts";
import { hubApprovals } from "../../hub/methods/hub-approvals.ts";
import { hubState } from "../../hub/methods/state.ts";
import type { Config } from "../config/config.ts";
import type { Capabilities, Hooks } from "./hooks.ts";
import type { HubSettings } from "./hub-settings.ts";

const REQUEST_MS = 1_000;
/** Connections of a member for requests; the stream has one of its own. */
const CONNECTIONS_MAX = 8;
const ID_BYTES = 16;

interface MemberParts extends Pick<Capabilities, "clock" | "monotonic" | "random">, Pick<Hooks, "bundle"> {
  readonly settings: NonNullable<HubSettings["member"]>;
  readonly log: (message: string, cause: unknown) => void;
  readonly onCertificates?: ((event: CertificateEvent) => void) | undefined;
  /** Returns the id of this process's log. */
  readonly instance: () => string | undefined;
  /** Returns the version of the configuration in use; undefined before there is one. */
  readonly policyVersion: () => string | undefined;
}

/** The approvals and the shared state of a member, in place of a database. */
export interface MemberOfHub {
  readonly approvals: Approvals;
  readonly operations: StateOperations;
  /** Whether the hub was heard of within the last seconds. */
  isConnected(): boolean;
  /** Returns whether an error says that the hub did not answer: the same request may succeed later. */
  isUnavailable(error: unknown): boolean;
  /** Refuses calls that claim an approval or a key until the promise settles. */
  holdClaims(until: Promise<unknown>): void;
  close(): Promise<void>;
}

/** Connects to the hub. The start does not wait for it. */
export function openMember(config: Config, parts: MemberParts): MemberOfHub {
  const client = clientOf(config, parts);
  const hub = present(config.hub?.url, "the hub's URL");
  let isClaimHeld = false;
  const letClaim = (): void => {
    isClaimHeld = false;
  };
  return {
    approvals: hubApprovals(client, { hub, log: parts.log, isClaimHeld: () => isClaimHeld }),
    operations: hubState(client, { hub }),
    isConnected: () => client.isConnected,
    isUnavailable: (error) => error instanceof HubUnavailable,
    holdClaims(until) {
      isClaimHeld = true;
      until.then(letClaim, letClaim);
    },
    close: () => client.close(),
  };
}

/** Returns connections to the hub, which nothing has used yet. */
export function openConnections({ hub: section }: Config, { secured }: MemberParts["settings"]) {
  const url = new URL(present(section?.url, "the hub's URL"));
  const connections = new RotatingClient({
    system: "hub",
    url,
    addresses: OPERATED_ADDRESSES,
    tls: url.protocol === "https:" ? (secured?.tls ?? {}) : undefined,
    certificates: secured?.certificates,
    connectionsMax: CONNECTIONS_MAX,
    keepsUnfinished: true,
  });
  return { url, connections, tenant: section?.tenant };
}

/** Returns a new id of a request. */
export function newRequestId(): string {
  return randomBytes(ID_BYTES).toString("base64url");
}

function clientOf(config: Config, parts: MemberParts): HubClient {
  const { settings, clock, monotonic, random, log, onCertificates, instance, policyVersion, bundle } = parts;
  const { connections, ...reached } = openConnections(config, settings);
  connections.watch({ now: clock, report: onCertificates ?? (() => {}) });
  return openHubClient({
    ...reached,
    connections,
    token: settings.readToken,
    facts: () => ({ instance: instance(), version: VERSION, policyVersion: policyVersion(), bundle: bundle?.() }),
    newId: newRequestId,
    monotonic,
    random,
    log,
    requestMs: config.hub?.requestMs ?? REQUEST_MS,
  });
}
