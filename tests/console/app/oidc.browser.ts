import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Browser, BrowserContext } from "playwright-core";
import { launchBrowser } from "../../support/browser.ts";
import { OAuthProvider } from "../../support/oauth-provider.ts";
import { freePorts } from "../../support/ports.ts";
import { ConsoleStand } from "../console-stand.ts";

const RESOURCE = "https://operators.example";
const SCOPES = ["approvals:decide", "audit:read"];

let browser: Browser;
let provider: OAuthProvider;
let stand: ConsoleStand;

beforeAll(async () => {
  browser = await launchBrowser();
  const port = freePorts();
  provider = await OAuthProvider.start({
    resources: { [RESOURCE]: SCOPES },
    accounts: { ann: SCOPES },
    clients: [
      {
        client_id: "stc-console",
        redirect_uris: [`http://127.0.0.1:${port}/console/oidc`],
        grant_types: ["authorization_code"],
        token_endpoint_auth_method: "none",
        application_type: "native",
      },
    ],
  });
  const tokens = { audience: RESOURCE, profile: "rfc9068", algorithms: ["ES256"] };
  const oidc = { issuer: provider.issuer, clientId: "stc-console", scopes: ["openid", ...SCOPES], resource: RESOURCE };
  stand = await ConsoleStand.start({
    server: { console: { port } },
    jwt: { issuers: [{ issuer: provider.issuer, ...tokens, jwksUri: provider.jwksUri, operators: true }] },
    rest: { console: { oidc }, approvals: { store: "sqlite://./approvals.sqlite" } },
  });
});

afterAll(async () => {
  await browser?.close();
  await stand?.close();
  provider?.close();
});

/** Returns a browser in which the provider knows who it is, as after an earlier sign-in. */
async function browserOf(account: string): Promise<BrowserContext> {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  await context.route(`${provider.issuer}/auth?**`, async (route) => {
    const url = new URL(route.request().url());
    url.searchParams.set("login_hint", account);
    await route.fulfill({ status: 303, headers: { location: String(await provider.authorize(url, account)) } });
  });
  return context;
}

test("a person signs in at the organization's provider, and returns to the page that was open", async () => {
  const context = await browserOf("ann");
  const page = await context.newPage();
  await page.goto(`${stand.url}/console#/approvals?from=a-link`);
  await page.getByRole("button", { name: "Sign in with your organization" }).click();
  await page.getByText("Nothing waits for you").waitFor();
  expect(page.url()).toBe(`${stand.url}/console#/approvals?from=a-link`);
  await page.locator(".account summary").click();
  expect(await page.locator(".account .menu").textContent()).toContain("ann");
  expect(await page.evaluate("JSON.stringify({ ...sessionStorage })")).not.toContain("eyJ");
  await context.close();
});

test("a sign-in that the provider refuses, and one that nobody began, are explained and open nothing", async () => {
  const context = await browserOf("ann");
  const page = await context.newPage();
  await page.goto(`${stand.url}/console/oidc?error=access_denied&error_description=Not%20you%20%3Cb%3E`);
  // This tab did not begin the sign-in, so anybody may have written the description in the URL.
  await page.getByRole("alert").getByText("The identity provider did not sign you in.").waitFor();
  expect(await page.getByText("Not you").count()).toBe(0);
  expect(page.url()).toBe(`${stand.url}/console`);
  await page.goto(`${stand.url}/console/oidc?code=stolen&state=unknown&iss=${encodeURIComponent(provider.issuer)}`);
  await page.getByRole("alert").getByText("UNAUTHENTICATED").waitFor();
  expect(page.url()).toBe(`${stand.url}/console`);
  expect(await page.locator(".layout").count()).toBe(0);
  await context.close();
});
