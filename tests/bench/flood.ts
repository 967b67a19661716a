/**
 * A flood of requests: a process of its own, HTTP/1.1 over keep-alive sockets, the next request as soon as the last is answered,
 * whatever the answer is, until its input ends. Reads its orders as JSON from the first argument; prints a line once every connection
 * is open, and at the end how often it got each status.
 */
export interface FloodOrders {
  readonly port: number;
  /** Tokens of the connections, by turns. */
  readonly tokens: readonly string[];
  /** Bodies of the connections, by turns. `#` stands for another number in each request. */
  readonly bodies: readonly string[];
  readonly connections: number;
}

export type FloodFindings = Readonly<Record<string, number>>;

interface Lane {
  readonly token: string;
  readonly body: string;
}

async function run({ port, tokens, bodies, connections }: FloodOrders): Promise<void> {
  const statuses: Record<string, number> = {};
  let sent = 0;
  const next = (socket: { write(data: string): number }, { token, body }: Lane): void => {
    sent += 1;
    const text = body.replace("#", String(sent));
    const head = `POST /call HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}`;
    socket.write(`${head}\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
  };
  const connect = async (lane: Lane): Promise<void> => {
    let text = "";
    await Bun.connect({
      hostname: "127.0.0.1",
      port,
      socket: {
        open: (socket) => next(socket, lane),
        data(socket, chunk) {
          text += chunk.toString("latin1");
          const head = text.indexOf("\r\n\r\n");
          const length = Number(/content-length: (\d+)/i.exec(text)?.[1]);
          if (head === -1 || text.length < head + 4 + length) return;
          const status = text.slice(9, 12);
          statuses[status] = (statuses[status] ?? 0) + 1;
          // A refusal before the body was read ends the connection.
          if (/^connection: close/im.test(text.slice(0, head))) void connect(lane);
          else next(socket, lane);
          text = "";
        },
      },
    }).catch(() => setTimeout(connect, 100, lane));
  };
  const lanes = Array.from({ length: connections }, (_, at): Lane => {
    return { token: tokens[at % tokens.length] ?? "", body: bodies[at % bodies.length] ?? "" };
  });
  await Promise.all(lanes.map(connect));
  console.log("open");
  for await (const _ of Bun.stdin.stream());
  console.log(JSON.stringify(statuses));
  process.exit(0);
}

if (import.meta.main) await run(JSON.parse(process.argv[2] ?? "") as FloodOrders);
