#!/usr/bin/env node
// Runs the service with the Bun that this package depends on. For Node 20 and later, without dependencies.
const { spawn, spawnSync } = require("node:child_process");
const { accessSync, constants } = require("node:fs");
const { constants: system } = require("node:os");
const { dirname, join, resolve } = require("node:path");
const { optionalDependencies: RUNTIMES } = require("../package.json");

const [VERSION] = Object.values(RUNTIMES);
/** Prevents the runtime from reading settings, variables or packages of the working directory. */
const OPTIONS = ["--no-env-file", "--config=/dev/null", "--no-install"];
/** A program that is no Bun may wait for input without end. */
const VERSION_TIMEOUT_MS = 10_000;
const FORWARDED = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"];
/** EX_UNAVAILABLE of sysexits.h: a program that is needed is missing. */
const UNAVAILABLE = 69;

function fail(problem) {
  console.error(`stc: ${problem}`);
  process.exit(UNAVAILABLE);
}

/** Returns the path of Bun: the one that STC_BUN names, else the installed one. */
function findBun() {
  const chosen = process.env.STC_BUN;
  if (chosen) return chosenBun(resolve(chosen));
  const name = `@oven/bun-${process.platform}-${process.arch === "arm64" ? "aarch64" : process.arch}${isMusl() ? "-musl" : ""}`;
  if (!(name in RUNTIMES)) fail(`does not run on ${process.platform} with ${process.arch}`);
  // The install script of the package `bun`, where a project has it too, moves the program out of the first package.
  return (
    installedBun(name, "bin/bun") ??
    installedBun("bun", "bin/bun.exe") ??
    fail(
      `Bun ${VERSION} is missing: install the optional dependency ${name}, or set STC_BUN to the path of Bun ${VERSION}`,
    )
  );
}

function chosenBun(path) {
  const { stdout, error } = spawnSync(path, ["--version"], { encoding: "utf8", timeout: VERSION_TIMEOUT_MS });
  if (error) fail(`STC_BUN: ${path} cannot be run (${error.code})`);
  const [found] = stdout.split("\n");
  return found === VERSION
    ? path
    : fail(`STC_BUN: ${path} is not Bun ${VERSION}: its version is ${found || "unknown"}`);
}

function installedBun(name, program) {
  try {
    const manifest = require.resolve(`${name}/package.json`);
    const path = join(dirname(manifest), program);
    accessSync(path, constants.X_OK);
    return require(manifest).version === VERSION ? path : undefined;
  } catch {
    return undefined;
  }
}

function isMusl() {
  if (process.platform !== "linux") return false;
  // Without this, the report looks up the names of network addresses.
  process.report.excludeNetwork = true;
  return process.report.getReport().header.glibcVersionRuntime === undefined;
}

/** Stays as the parent: forwards signals, and ends as the service does. The service ends when this process does. */
function superviseService(bun, words) {
  const child = spawn(bun, words, { stdio: ["inherit", "inherit", "inherit", "ipc"] });
  child.on("error", ({ code }) => fail(`${bun} cannot be run (${code})`));
  child.on("exit", (code, signal) => process.exit(code ?? 128 + system.signals[signal]));
  for (const signal of FORWARDED) process.on(signal, () => child.kill(signal));
}

const bun = findBun();
const wordsFor = (entry) => [...OPTIONS, join(__dirname, "../lib", entry), ...process.argv.slice(2)];
// From Node 22.15 on, this process can become the service: one process, with its own signals and exit code.
if (process.execve) process.execve(bun, [bun, ...wordsFor("main.js")], process.env);
else superviseService(bun, wordsFor("launched.js"));
