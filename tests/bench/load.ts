/**
 * The load generator: a process of its own, HTTP/1.1 over keep-alive sockets, one request in flight per connection.
 * Reads its orders as JSON from the first argument and prints its findings as JSON.
 */
export interface Orders {
  readonly port: number;
  readonly token: string;
  /** POST unless it is named. */
  readonly method?: "GET" | "POST";
  readonly body: string;
  /** `/call` unless it is named. */
  readonly path?: string;
  /** More header lines. */
  readonly headers?: readonly string[];
  readonly connections: number;
  readonly requests: number;
  /** Time from one request of a connection to its next; by default, the next follows the answer. */
  readonly everyMs?: number;
}

export interface Findings {
  readonly perSecond: number;
  readonly medianUs: number;
  readonly p99Us: number;
  readonly failed: number;
  /** Processor time of the load generator for one call. */
  readonly cpuUs: number;
}

async function run({
  port,
  token,
  method = "POST",
  body,
  path = "/call",
  headers = [],
  connections,
  requests,
  everyMs,
}: Orders): Promise<Findings> {
  const request = Buffer.from(
    `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n${headers.map((line) => `${line}\r\n`).join("")}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  const latencies = new Float64Array(requests);
  let sent = 0;
  let done = 0;
  let failed = 0;
  const usedBefore = process.cpuUsage();
  const started = performance.now();
  await new Promise<void>((resolve, reject) => {
    for (let lane = 0; lane < connections; lane += 1) {
      let at = 0;
      let text = "";
      const next = (socket: { write(data: Uint8Array): number; end(): void }): void => {
        if (sent >= requests) {
          socket.end();
          return;
        }
        sent += 1;
        at = performance.now();
        socket.write(request);
      };
      Bun.connect({
        hostname: "127.0.0.1",
        port,
        socket: {
          open: next,
          data(socket, chunk) {
            text += chunk.toString("latin1");
            const head = text.indexOf("\r\n\r\n");
            const length = Number(/content-length: (\d+)/i.exec(text)?.[1]);
            if (head === -1 || text.length < head + 4 + length) return;
            latencies[done] = (performance.now() - at) * 1000;
            if (!text.startsWith("HTTP/1.1 200")) failed += 1;
            text = "";
            done += 1;
            if (done === requests) resolve();
            if (everyMs === undefined) next(socket);
            else setTimeout(next, Math.max(0, at + everyMs - performance.now()), socket);
          },
          error: (_socket, error) => reject(error),
        },
      }).catch(reject);
    }
  });
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(usedBefore);
  latencies.sort();
  return {
    perSecond: requests / seconds,
    medianUs: latencies[requests >> 1] ?? 0,
    p99Us: latencies[Math.floor(requests * 0.99)] ?? 0,
    failed,
    cpuUs: (user + system) / requests,
  };
}

if (import.meta.main) console.log(JSON.stringify(await run(JSON.parse(process.argv[2] ?? "") as Orders)));
