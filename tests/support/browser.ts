import { type Browser, chromium } from "playwright-core";

const NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/** Advice for machines without a browser. */
export const NO_BROWSER =
  "The browser tests need Chromium on PATH: apt-get install -y --no-install-recommends chromium-headless-shell";

export function browserPath(): string | undefined {
  return NAMES.map((name) => Bun.which(name)).find((path) => path !== null) ?? undefined;
}

/** Starts a browser without a window. Its sandbox does not start for root. */
export function launchBrowser(): Promise<Browser> {
  const executablePath = browserPath();
  if (executablePath === undefined) throw new Error(NO_BROWSER);
  const isRoot = process.getuid?.() === 0;
  return chromium.launch({ executablePath, args: ["--disable-dev-shm-usage", ...(isRoot ? ["--no-sandbox"] : [])] });
}
