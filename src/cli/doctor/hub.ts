import { X509Certificate } from "node:crypto";
import { errorText, systemCode } from "../../core/error-text.ts";
import { MODULES } from "../../modules.ts";
import { type Config, pathFrom } from "../../runtime/config/config.ts";
import { type Check, type CheckFinding, configured, failed, notApplicable, ok, warning } from "./check.ts";
import type { Deployment } from "./deployment.ts";
import { smallFile } from "./files.ts";
import { connectToOwnHub } from "./own-port.ts";

/** Checks a hub, or the connection of a member to its hub. */
export const hub: Check = configured("hub", (config, deployment) => {
  if (config.hub?.url !== undefined) return askedHub(config, config.hub.url, deployment);
  if (config.hub?.listen !== undefined) return ownPort(config, deployment);
  return notApplicable("the service is neither a hub nor a member");
});

async function askedHub(config: Config, url: string, { now }: Deployment): Promise<readonly CheckFinding[]> {
  const { askHub, NotAccepted } = await import("../../runtime/composition/hub-probe.ts");
  try {
    const name = await askHub(config, MODULES, now);
    if (name === undefined) return notApplicable("the section hub cannot be used: see configuration");
    return [ok(`${url} answers, and knows this member as ${name}`)];
  } catch (error) {
    const seen = `${url}: ${errorText(error)}`;
    return error instanceof NotAccepted
      ? [
          failed(
            seen,
            "At the hub, see hub.members and hub.tokens; here, the certificate or the token. docs/fleet.md#a-hub",
          ),
        ]
      : [
          failed(
            seen,
            "Restore the way to the hub: DNS, network policies, hub.tls.caFile. docs/fleet.md#without-the-hub",
          ),
        ];
  }
}

/** Checks that the running service, and nothing else, listens at the hub's address. */
async function ownPort(config: Config, deployment: Deployment): Promise<readonly CheckFinding[]> {
  const isRunning = (await deployment.audit()).some(({ writer }) => writer !== undefined);
  try {
    const { address, presented } = await connectToOwnHub(config);
    if (!isRunning) {
      return [
        failed(`${address} is in use, and no service runs here`, "End what listens there, or change hub.listen."),
      ];
    }
    return [ok(`${address} takes connections of members`), ...ownCertificate(config, presented)];
  } catch (error) {
    const { host, port } = config.hub?.listen ?? {};
    const at = `hub.listen: ${host}:${port}`;
    if (!isRunning && systemCode(error) === "ECONNREFUSED") return [ok(`${at} is free: the service does not run`)];
    return [failed(`${at}: ${errorText(error)}`, "See the service's log. docs/fleet.md#a-hub")];
  }
}

function ownCertificate(config: Config, presented: X509Certificate | undefined): readonly CheckFinding[] {
  const file = config.hub?.tls?.certFile;
  const pem = file === undefined ? undefined : smallFile(pathFrom(config, file));
  if (presented === undefined || pem === undefined) return [];
  if (new X509Certificate(pem).fingerprint256 === presented.fingerprint256) {
    return [ok("members get the certificate of hub.tls.certFile")];
  }
  const next = "The service's log says why it does not use the file: key and certificate must be replaced together.";
  return [warning("members get another certificate than that of hub.tls.certFile", next)];
}
