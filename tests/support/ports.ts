/** First port, below those that the system gives to servers and connections without a fixed one (Linux: from 32,768). */
const FIRST = 20_000;
const END = 32_000;
const PER_PROCESS = 12;

/** The next port to try. Tests run in several processes, and use a port only some time after it was found free: each begins elsewhere. */
let next = FIRST + (process.pid % ((END - FIRST) / PER_PROCESS)) * PER_PROCESS;

/** Returns the first of three consecutive ports that are free now: a development stand's, its console's, its gRPC service's. */
export function freePorts(): number {
  for (;;) {
    const port = next;
    next = port + 3 < END ? port + 3 : FIRST;
    const listening: { stop(closeActiveConnections: boolean): void }[] = [];
    try {
      for (const distance of [0, 1, 2]) {
        listening.push(Bun.listen({ hostname: "127.0.0.1", port: port + distance, socket: { data() {} } }));
      }
      return port;
    } catch {
      // One of the ports is taken: tries the next ones.
    } finally {
      for (const each of listening) each.stop(true);
    }
  }
}
