import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page } from "playwright-core";
import type { ConsoleWorld } from "./console-world.ts";

/** `UNDO_MS` of `src/console/app/approvals/decisions.ts`, which loads in a page only. If they differ, `sendNow` finds no decision. */
const UNDO_MS = 5_000;
/** `DONE_MS` of `src/console/app/state.ts`. */
const NOTICE_MS = 7_000;
const PATIENT_MS = 60_000;
/** Time limit for what a test waits for: nothing takes as long, even on a busy machine. */
const WAIT_MS = 60_000;
/** Refusals that a page handles are also written to the browser's log: they are not errors of the page. */
const EXPECTED = /^Failed to load resource: /;

export interface VisitOptions extends Pick<BrowserContextOptions, "viewport" | "colorScheme" | "permissions"> {
  readonly sub?: string;
  readonly permissions?: string[];
  readonly holds?: readonly string[];
  /** Where the browser goes, when it is not the console itself. */
  readonly url?: string;
  /** Lets decisions wait to be sent, and notices stay, for a minute: a person is faster than a test on a busy machine. */
  readonly isPatient?: boolean;
  /** Runs in the page before its own scripts. */
  readonly script?: string;
}

/** A person with a browser in front of the console. */
export class Visitor {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Errors that the browser reported: violations of the content security policy, uncaught errors, the page's own log. */
  readonly problems: string[] = [];
  readonly #url: string;

  private constructor(page: Page, url: string) {
    this.page = page;
    this.context = page.context();
    this.#url = url;
    this.#watch(page);
  }

  static async open(
    browser: Browser,
    world: Pick<ConsoleWorld, "consoleUrl">,
    options: VisitOptions = {},
  ): Promise<Visitor> {
    const { sub, holds, url = world.consoleUrl, isPatient = false, script, ...context } = options;
    const opened = await browser.newContext({
      ...{ viewport: { width: 1280, height: 800 }, ...context },
      // Colours are measured: none may be on its way to another.
      reducedMotion: "reduce",
    });
    opened.setDefaultTimeout(WAIT_MS);
    await opened.addInitScript(REPORT_VIOLATIONS);
    await opened.addInitScript(sendNow(isPatient));
    if (script !== undefined) await opened.addInitScript(script);
    const visitor = new Visitor(await opened.newPage(), url);
    await visitor.go("#/approvals");
    return visitor;
  }

  /** Opens the console and signs in with a token. */
  static async signedIn(browser: Browser, world: ConsoleWorld, options: VisitOptions = {}): Promise<Visitor> {
    const visitor = await Visitor.open(browser, world, options);
    await visitor.signIn(await world.operator(options.sub, options.holds));
    return visitor;
  }

  async signIn(token: string): Promise<void> {
    await this.page.getByLabel("Operator's token").fill(token);
    await this.page.keyboard.press("Enter");
    await this.page.locator(".layout").waitFor();
  }

  async go(fragment: string): Promise<void> {
    await this.page.goto(`${this.#url}/console${fragment}`);
  }

  /** Opens a request, and waits until an approval would count. */
  async open(id: string): Promise<void> {
    await this.go(`#/approvals/${id}`);
    await this.page.locator("#request-title").waitFor();
  }

  row(id: string): Locator {
    return this.page.locator(`#row-${id}`);
  }

  /** A button that is not waiting for anything. */
  ready(name: string | RegExp): Locator {
    return this.page.getByRole("button", { name, disabled: false });
  }

  /** Sends the decisions that can still be undone; waits until the page has at least one. */
  async sendNow(): Promise<void> {
    await this.page.waitForFunction("sendDecisions()");
  }

  async anotherTab(): Promise<Page> {
    const page = await this.context.newPage();
    this.#watch(page);
    await page.goto(`${this.#url}/console`);
    return page;
  }

  close(): Promise<void> {
    return this.context.close();
  }

  #watch(page: Page): void {
    page.on("console", (message) => {
      if (message.type() === "error" && !EXPECTED.test(message.text())) this.problems.push(message.text());
    });
    page.on("pageerror", (error) => this.problems.push(error.message));
  }
}

const REPORT_VIOLATIONS = `document.addEventListener("securitypolicyviolation", (event) => {
  console.error("CSP violation: " + event.violatedDirective + " " + event.blockedURI + " " + event.sourceFile);
});`;

/** Returns the script that sends decisions before their time. Their timers still run, and each decision is sent once. */
const sendNow = (isPatient: boolean): string => `{
  const { setTimeout: later } = globalThis;
  const waiting = [];
  globalThis.setTimeout = (run, ms, ...more) => {
    if (${isPatient} && ms === ${NOTICE_MS}) return later(run, ${PATIENT_MS}, ...more);
    if (ms !== ${UNDO_MS}) return later(run, ms, ...more);
    let hasRun = false;
    const once = () => {
      if (!hasRun) run(...more);
      hasRun = true;
    };
    waiting.push(once);
    return later(once, ${isPatient} ? ${PATIENT_MS} : ms);
  };
  globalThis.sendDecisions = () => {
    const decisions = waiting.splice(0);
    for (const send of decisions) send();
    return decisions.length > 0;
  };
}`;
