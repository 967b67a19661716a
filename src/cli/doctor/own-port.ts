import type { X509Certificate } from "node:crypto";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { present } from "../../core/present.ts";
import type { Config } from "../../runtime/config/config.ts";

const ASK_MS_MAX = 4_000;

/** The listener that answers at a hub's address. */
export interface HubPort {
  /** `host:port` that was tried. */
  readonly address: string;
  /** The certificate that is presented; undefined without TLS. */
  readonly presented: X509Certificate | undefined;
}

/** Connects to the address of the configuration. Rejects with the system's error when nothing listens there. */
export function connectToOwnHub({ hub }: Config): Promise<HubPort> {
  const { host, port } = present(hub?.listen, "the hub's address");
  const own = { "0.0.0.0": "127.0.0.1", "::": "::1" }[host] ?? host;
  const address = `${own.includes(":") ? `[${own}]` : own}:${port}`;
  const { promise, resolve, reject } = Promise.withResolvers<HubPort>();
  let socket: Socket;
  if (hub?.tls === undefined) {
    socket = connectTcp({ host: own, port }, () => resolve({ address, presented: undefined }));
  } else {
    // The certificate is compared with the file: whether it is trusted is for members to say.
    const secured = connectTls({ host: own, port, rejectUnauthorized: false }, () =>
      resolve({ address, presented: secured.getPeerX509Certificate() }),
    );
    socket = secured;
  }
  socket.setTimeout(ASK_MS_MAX, () => reject(new Error(`no answer within ${ASK_MS_MAX / 1_000} s`)));
  socket.once("error", reject);
  return promise.finally(() => socket.destroy());
}
