import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryDirectory } from "../targets/command/temporary-directory.ts";

/** A program that prints what it is told and remembers how it was called. */
export class Recorder {
  readonly program: string;
  readonly #folder = temporaryDirectory();

  constructor(name: string) {
    this.program = join(this.#folder, name);
    copyFileSync(join(import.meta.dir, "bin/recorder.sh"), this.program);
    this.answers("");
  }

  answers(stdout: string, exitCode = 0, stderr = ""): void {
    writeFileSync(join(this.#folder, "stdout"), stdout);
    writeFileSync(join(this.#folder, "stderr"), stderr);
    writeFileSync(join(this.#folder, "exit"), String(exitCode));
  }

  wasRun(): boolean {
    return existsSync(join(this.#folder, "argv"));
  }

  /** As if it had never been run. */
  forget(): void {
    rmSync(join(this.#folder, "argv"), { force: true });
  }

  argv(): readonly string[] {
    return this.#kept("argv");
  }

  environment(): Readonly<Record<string, string>> {
    const entries = this.#kept("environment").map((line) => {
      const sign = line.indexOf("=");
      return [line.slice(0, sign), line.slice(sign + 1)] as const;
    });
    return Object.fromEntries(entries);
  }

  #kept(name: string): readonly string[] {
    return readFileSync(join(this.#folder, name), "utf8").split("\0").slice(0, -1);
  }
}
