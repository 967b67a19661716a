import { isTable } from "../core/json.ts";
import { processEnvironment } from "../runtime/config/environment.ts";
import { readConsoleAddress } from "../runtime/config/file.ts";
import { isClone } from "../runtime/own-code.ts";
import { answerOf, noAnswer, readText } from "./client.ts";
import { type ConfigurationOptions, NO_DEVELOPMENT } from "./configuration.ts";
import { fetchService } from "./connection.ts";
import { CommandError, EXIT, print, wrongUsage } from "./output.ts";
import { developmentOperatorToken } from "./token.ts";

const ANSWER_CHARACTERS_MAX = 4_096;
const TIMEOUT_MS = 5_000;

/** `stc console`: prints where the console is; on the development stand, a link that signs in. */
export async function console({ dev, config }: ConfigurationOptions): Promise<void> {
  const environment = processEnvironment();
  if (dev === true) {
    if (!isClone()) return wrongUsage(NO_DEVELOPMENT);
    const { developmentConsoleUrl } = await import("./development/environment.ts");
    return print.line(await developmentLink(developmentConsoleUrl(environment)));
  }
  const file = config ?? (environment["STC_CONFIG"] || undefined);
  if (file === undefined) {
    throw new CommandError(EXIT.configuration, "no configuration: set STC_CONFIG, or give --config FILE or --dev");
  }
  const address = readConsoleAddress(file, environment);
  if (address === undefined) throw new CommandError(EXIT.configuration, `${file} has no server.console`);
  print.line(address);
}

/** Returns a link that signs in to the development stand's console once, within a minute. */
export async function developmentLink(consoleUrl: string): Promise<string> {
  const authorization = `Bearer ${await developmentOperatorToken()}`;
  const tls = { rejectUnauthorized: true } as const;
  const init = { method: "POST", headers: { authorization }, signal: AbortSignal.timeout(TIMEOUT_MS) };
  const response = await fetchService({ url: consoleUrl, tls }, "/console/links", init).catch((error: unknown) => {
    throw new CommandError(EXIT.unreachable, noAnswer(consoleUrl, error));
  });
  const { body } = answerOf(response, await readText(response, ANSWER_CHARACTERS_MAX));
  const url = isTable(body) ? body["url"] : undefined;
  if (typeof url === "string") return url;
  throw new CommandError(EXIT.failed, `the console at ${consoleUrl} made no link (${response.status})`);
}
