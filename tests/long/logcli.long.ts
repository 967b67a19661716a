import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createServer } from "node:http";
import { buildLogcli } from "../support/logcli.ts";
import { PlatformStand, SYSTEMS } from "../tools/platform/platform-stand.ts";

/** Long: builds the real logcli, and lets it ask a stand-in for Loki. */
const built = buildLogcli();
const program = "program" in built ? built.program : undefined;
if ("missing" in built) console.log(`logcli cannot be had (${built.missing}): its tests are skipped`);

interface LokiRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly tenant: string | undefined;
  readonly authorization: string | undefined;
}

const HOUR_NS = 3_600_000_000_000n;

describe.skipIf(program === undefined)("the real logcli", () => {
  const requests: LokiRequest[] = [];
  const stand = new PlatformStand({ logcli: program ?? "" });
  const loki = createServer((request, response) => {
    const url = new URL(request.url ?? "", "http://loki");
    const { "x-scope-orgid": tenant, authorization } = request.headers;
    requests.push({
      method: request.method ?? "",
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      tenant: Array.isArray(tenant) ? tenant[0] : tenant,
      authorization,
    });
    const start = BigInt(url.searchParams.get("start") ?? "0");
    const values = [1n, 2n].map((second) => [
      String(start + second * 1_000_000_000n),
      `line ${second} {"a":"\u001b[31m"}`,
    ]);
    const stream = { namespace: "payments", app: "web", pod: "web-1", secret_label: "LABEL-SECRET" };
    response.setHeader("content-type", "application/json");
    response.end(
      JSON.stringify({ status: "success", data: { resultType: "streams", result: [{ stream, values }], stats: {} } }),
    );
  });

  beforeAll(async () => {
    await new Promise<void>((resolve) => loki.listen(0, "127.0.0.1", resolve));
    const address = loki.address();
    const port = typeof address === "object" ? address?.port : 0;
    stand.write("token", "loki-token");
    await stand.open({ ...SYSTEMS, loki: { ...SYSTEMS.loki, address: `http://127.0.0.1:${port}` } });
  });
  afterAll(() => {
    loki.closeAllConnections();
    loki.close();
  });

  test.each(['status="500"', '"} # ', "größe 🚀 \u2028", "@file", "--help", 'a\\"b\nc', "{a=`b`} |= x"])(
    "searches %p in one namespace, as one tenant",
    async (contains) => {
      requests.length = 0;
      const answer = await stand.call("query_logs", {
        namespace: "payments",
        app: "web",
        contains,
        since: "6h",
        limit: 2,
      });
      expect(answer).toMatchObject({
        lines: [
          { line: 'line 2 {"a":""}', app: "web", pod: "web-1", container: "" },
          { line: 'line 1 {"a":""}', app: "web", pod: "web-1", container: "" },
        ],
        droppedLines: 0,
      });
      expect(JSON.stringify(answer)).not.toContain("LABEL-SECRET");
      expect(requests).toHaveLength(1);
      const [request] = requests;
      expect(request).toMatchObject({
        method: "GET",
        path: "/loki/api/v1/query_range",
        tenant: "t1",
        authorization: "Bearer loki-token",
      });
      expect(request?.query["query"]).toStartWith('{namespace="payments", app="web"} |= "');
      expect(request?.query["limit"]).toBe("2");
      const range = BigInt(request?.query["end"] ?? "0") - BigInt(request?.query["start"] ?? "0");
      expect(range).toBe(6n * HOUR_NS);
    },
  );
});
