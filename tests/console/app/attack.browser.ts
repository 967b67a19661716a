import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { Browser, Page } from "playwright-core";
import { launchBrowser } from "../../support/browser.ts";
import { ConsoleWorld } from "./console-world.ts";
import { Visitor } from "./visitor.ts";

/**
 * A page on another port of the console's host. Cookies ignore ports, so its server receives the session's cookie, and browsers
 * treat its requests as same-site.
 */
const world = new ConsoleWorld();
const received: (string | null)[] = [];
const attacker = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: (request) => {
    received.push(request.headers.get("cookie"));
    return new Response("<!doctype html><title>Games</title><p>Games</p>", {
      headers: { "content-type": "text/html" },
    });
  },
});
let browser: Browser;
let visitor: Visitor;
let page: Page;
let id: string;

beforeAll(async () => {
  browser = await launchBrowser();
  await world.start();
  visitor = await Visitor.signedIn(browser, world);
  id = await world.ask("announce", { text: "pay everybody" });
  page = await visitor.context.newPage();
  await page.goto(`http://127.0.0.1:${attacker.port}/`);
});

afterEach(async () => {
  const { body } = await world.send("GET", `/approvals/${id}`, { token: await world.operator() });
  expect({ state: body.approval.state, done: world.done }).toEqual({ state: "pending", done: [] });
});

afterAll(async () => {
  await browser?.close();
  await attacker.stop(true);
  await world.end();
});

describe("a page on another port of the console's host", () => {
  test("has a server that receives the cookie, which opens nothing without the page's key", async () => {
    const cookie = received.find((header) => header?.includes("stc_console=")) ?? "";
    expect(cookie).not.toBe("");
    const origin = world.consoleUrl;
    const own = { cookie, origin, "sec-fetch-site": "same-origin" };
    const made = { ...own, "stc-console-key": Buffer.alloc(32, 7).toString("base64url") };
    for (const headers of [{ cookie }, own, made]) {
      for (const path of [
        "/console/session",
        "/approvals",
        `/approvals/${id}`,
        "/audit",
        "/events",
        "/configuration",
      ]) {
        const answer = await fetch(`${origin}${path}`, { headers });
        expect([401, 403]).toContain(answer.status);
        await answer.body?.cancel();
      }
      const decided = await fetch(`${origin}/approvals/${id}/decisions`, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify({ decision: "approve" }),
      });
      expect([401, 403]).toContain(decided.status);
    }
  });

  test("reads nothing with the person's browser", async () => {
    const paths = ["/console", "/console/session", "/approvals", `/approvals/${id}`, "/audit"];
    const read = await page.evaluate(`(async () => {
      const attempts = [
        { credentials: "include" },
        { credentials: "include", mode: "no-cors" },
        { credentials: "include", headers: { "stc-console-key": "A".repeat(43) } },
      ];
      const seen = [];
      for (const path of ${JSON.stringify(paths)}) {
        for (const attempt of attempts) {
          const url = ${JSON.stringify(world.consoleUrl)} + path;
          seen.push(await fetch(url, attempt).then((answer) => answer.text()).catch(() => ""));
        }
      }
      return seen.filter((text) => text !== "");
    })()`);
    expect(read).toEqual([]);
  });

  test("decides nothing with a request, a form or a beacon", async () => {
    await page.evaluate(`(async () => {
      const url = ${JSON.stringify(`${world.consoleUrl}/approvals/${id}/decisions`)};
      const body = JSON.stringify({ decision: "approve" });
      for (const type of ["text/plain", "application/json", "application/x-www-form-urlencoded"]) {
        const init = { method: "POST", credentials: "include", body, headers: { "content-type": type } };
        await fetch(url, init).catch(() => undefined);
        await fetch(url, { ...init, mode: "no-cors" }).catch(() => undefined);
      }
      navigator.sendBeacon(url, body);
      const frame = Object.assign(document.createElement("iframe"), { name: "sink" });
      const form = document.createElement("form");
      Object.assign(form, { method: "POST", action: url, target: "sink", enctype: "text/plain" });
      form.append(Object.assign(document.createElement("input"), { name: '{"decision":"approve","x":"', value: '"}' }));
      document.body.append(frame, form);
      const loaded = new Promise((resolve) => frame.addEventListener("load", resolve));
      form.submit();
      await loaded;
    })()`);
  });

  test("neither frames the console, nor reads its window, its storage and its messages", async () => {
    const seen = await page.evaluate(`(async () => {
      const heard = [];
      new BroadcastChannel("stc-console").onmessage = ({ data }) => heard.push(data);
      const url = ${JSON.stringify(`${world.consoleUrl}/console`)};
      const frame = Object.assign(document.createElement("iframe"), { src: url });
      const loaded = new Promise((resolve) => frame.addEventListener("load", resolve));
      document.body.append(frame);
      await loaded;
      const opened = window.open(url);
      const textOf = (read) => {
        try {
          return read() ?? "";
        } catch {
          return "";
        }
      };
      await new Promise((resolve) => setTimeout(resolve, 500));
      return {
        framed: textOf(() => frame.contentDocument?.body.textContent),
        opened: textOf(() => opened?.document.body.textContent),
        kept: sessionStorage.length + localStorage.length,
        heard,
      };
    })()`);
    expect(seen).toEqual({ framed: "", opened: "", kept: 0, heard: [] });
    expect(page.frames().filter((frame) => frame.url().startsWith(world.consoleUrl))).toEqual([]);
  });
});
