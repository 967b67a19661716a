import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { StartupError } from "../../src/core/errors.ts";
import {
  CALL,
  callHeaders,
  emptyFolder,
  type IdentityParts,
  issuers,
  startIdentityService,
} from "../support/identity-service.ts";
import { until } from "../support/until.ts";

async function call(socket: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  return fetch("http://localhost/call", {
    unix: socket,
    method: "POST",
    headers: { ...(await callHeaders()), ...headers },
    body: CALL,
  });
}

async function whyNot(parts: IdentityParts): Promise<string> {
  const outcome = await startIdentityService(parts).catch((error: unknown) => error);
  expect(outcome).toBeInstanceOf(StartupError);
  return String(outcome);
}

test("calls come through the socket, and the port where there is one", async () => {
  const stand = await startIdentityService({ server: { socket: "./call.sock" } });
  const socket = join(stand.folder, "call.sock");
  expect(await (await call(socket)).json()).toMatchObject({ status: "success", result: { ok: true } });
  const overPort = await fetch(`${stand.service.url}/call`, {
    method: "POST",
    headers: await callHeaders(),
    body: CALL,
  });
  expect(overPort.status).toBe(200);
  expect(lstatSync(socket).mode & 0o777).toBe(0o600);
  await stand.service.drain();
  expect(existsSync(socket)).toBe(false);
  await stand.close();
});

test("the socket alone: nothing listens on a port", async () => {
  const stand = await startIdentityService({ server: { port: "off", socket: "./call.sock", socketMode: "0660" } });
  const socket = join(stand.folder, "call.sock");
  expect(stand.service.url).toBe(`unix:${socket}`);
  expect(lstatSync(socket).mode & 0o777).toBe(0o660);
  expect((await call(socket)).status).toBe(200);
  await stand.close();
});

test("Host and Origin are checked as on the port", async () => {
  const stand = await startIdentityService({ server: { port: "off", socket: "./s", allowedHosts: ["stc"] } });
  const socket = join(stand.folder, "s");
  const rows = [
    [{ host: "localhost" }, 200],
    [{ host: "stc" }, 200],
    [{ host: "evil.example" }, 403],
    [{ host: "localhost", origin: "https://evil.example" }, 403],
  ] as const;
  for (const [headers, status] of rows) expect((await call(socket, headers)).status).toBe(status);
  await stand.close();
});

test("an unauthenticated client's refusals at the socket are counted under one source, and audited", async () => {
  const stand = await startIdentityService({ server: { port: "off", socket: "./s" } });
  expect((await call(join(stand.folder, "s"), { authorization: "Bearer x" })).status).toBe(401);
  await stand.service.drain();
  const [day] = [...new Bun.Glob("*.jsonl").scanSync(join(stand.folder, "audit"))];
  expect(readFileSync(join(stand.folder, "audit", day ?? ""), "utf8")).toContain('"UNAUTHENTICATED"');
  await stand.close();
});

test("a dead process's socket is replaced, and a later one is left alone", async () => {
  const folder = emptyFolder();
  const socket = join(folder, "call.sock");
  const dead = `require("node:net").createServer().listen(${JSON.stringify(socket)}, () => process.kill(process.pid, "SIGKILL"))`;
  spawnSync(process.execPath, ["-e", dead]);
  expect(lstatSync(socket).isSocket()).toBe(true);
  const stand = await startIdentityService({ folder, server: { socket } });
  expect((await call(socket)).status).toBe(200);
  renameSync(socket, `${socket}.moved`);
  writeFileSync(socket, "somebody's file");
  await stand.service.drain();
  expect(readFileSync(socket, "utf8")).toBe("somebody's file");
  await stand.close();
});

test("a path in use is refused and unchanged", async () => {
  const folder = emptyFolder();
  const at = (name: string): string => join(folder, name);
  writeFileSync(at("file"), "kept");
  symlinkSync(at("nowhere"), at("link"));
  mkdirSync(at("folder"));
  const live = createServer();
  await new Promise<void>((resolve) => live.listen(at("live"), resolve));
  symlinkSync(at("live"), at("link-to-live"));
  const rows = [
    ["file", "is not a socket"],
    ["link", "is a symbolic link"],
    ["link-to-live", "is a symbolic link"],
    ["folder", "is not a socket"],
    ["live", "is in use"],
    ["missing/call.sock", "is not a folder: create it first"],
    [`${"x".repeat(100)}`, "is over 90 bytes"],
  ] as const;
  for (const [name, says] of rows) {
    expect(await whyNot({ folder, server: { socket: at(name) } })).toContain(says);
  }
  expect(readFileSync(at("file"), "utf8")).toBe("kept");
  expect(lstatSync(at("link")).isSymbolicLink()).toBe(true);
  const knocked = await new Promise<boolean>((resolve) => {
    const knock = connect(at("live"), () => resolve(true)).on("error", () => resolve(false));
    knock.unref();
  });
  expect(knocked).toBe(true);
  live.close();
  rmSync(folder, { recursive: true, force: true });
});

test("a socket in a mount, and a mount around a socket, do not start", async () => {
  const folder = emptyFolder();
  mkdirSync(join(folder, "project/run"), { recursive: true });
  const said = await whyNot({
    folder,
    server: { socket: "./project/run/call.sock" },
    rest: { workspace: { project: "./project" } },
  });
  expect(said).toContain("server.socket");
  expect(said).toContain(realpathSync(join(folder, "project")));
  rmSync(folder, { recursive: true, force: true });
});

test("settings that contradict each other", async () => {
  const rows = [
    [{ port: "off" }, "is off, and there is no socket either"],
    [{ port: "off", socket: "./s", tls: { certFile: "a", keyFile: "b" } }, "is for the port"],
    [{ port: "of", socket: "./s" }, "must be a number from 0 to 65535, without quotes, or off"],
    [{ port: 70_000 }, "server.port"],
    [{ socket: "./s", socketMode: "0666" }, 'must be "0600" or "0660", in quotes'],
    [{ socket: "./s", socketMode: 660 }, 'must be "0600" or "0660", in quotes'],
    [{ socket: "" }, "server.socket"],
  ] as const;
  for (const [server, says] of rows) {
    expect(await whyNot({ server })).toContain(says);
  }
});

test("a client that sends nothing, or never ends its headers, is disconnected", async () => {
  const stand = await startIdentityService({ server: { port: "off", socket: "./s", headersTimeoutMs: 200 } });
  const socket = join(stand.folder, "s");
  for (const text of ["", "POST /call HTTP/1.1\r\nHost: local", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "]) {
    let isClosed = false;
    const client = connect(socket, () => client.write(text));
    client.on("close", () => {
      isClosed = true;
    });
    client.on("error", () => {});
    await until("the slow client to be cut off", () => isClosed || undefined);
  }
  expect((await call(socket)).status).toBe(200);
  await stand.close();
});

test("a drain answers connected clients, accepts no others, and closes idle connections", async () => {
  const stand = await startIdentityService({ server: { port: "off", socket: "./s" } });
  const socket = join(stand.folder, "s");
  let isClosed = false;
  const idle = connect(socket);
  idle.on("close", () => {
    isClosed = true;
  });
  idle.on("error", () => {});
  expect((await call(socket)).status).toBe(200);
  await stand.service.drain();
  await until("the idle connection to be closed", () => isClosed || undefined);
  expect(await call(socket).catch(() => "gone")).toBe("gone");
  await stand.close();
});

test("operators may use it too, and agents' tokens stay agents'", async () => {
  const stand = await startIdentityService({ server: { port: "off", socket: "./s" } });
  const socket = join(stand.folder, "s");
  const get = async (kind: "good" | "operator"): Promise<number> => {
    const token = await issuers.token({ kind, sub: "x", permissions: ["metrics:read"] });
    return (await fetch("http://localhost/metrics", { unix: socket, headers: { authorization: `Bearer ${token}` } }))
      .status;
  };
  expect(await get("operator")).toBe(200);
  expect(await get("good")).toBe(401);
  await stand.close();
});

test("`stc` reaches the service through it", async () => {
  const stand = await startIdentityService({ server: { port: "off", socket: "./s" } });
  const { authorization = "" } = await callHeaders();
  writeFileSync(join(stand.folder, "token"), authorization.slice("Bearer ".length));
  const stc = async (...words: readonly string[]) => {
    const program = [process.execPath, join(import.meta.dir, "../../src/cli/main.ts"), ...words];
    const environment = { STC_URL: `unix:${stand.folder}/s`, STC_TOKEN_FILE: join(stand.folder, "token") };
    const child = Bun.spawn(program, { env: { PATH: process.env["PATH"], ...environment }, stdout: "pipe" });
    return { out: await child.stdout.text(), code: await child.exited };
  };
  const [lives, called] = await Promise.all([stc("health", "--ready"), stc("call", "whoami", "{}", "--json")]);
  expect(lives.code).toBe(0);
  expect(called.code).toBe(0);
  expect(called.out).toContain('"success"');
  await stand.close();
});
