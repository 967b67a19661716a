import { Refusal } from "../../../../src/core/errors.ts";
import { bash } from "../../../../tools/workspace/bash.ts";
import { configFor } from "../../../tools/workspace/stand.ts";
import { temporaryDirectory } from "../temporary-directory.ts";
import { confinedStand } from "./stand.ts";

/**
 * A process that runs one script after the other as the tool `bash`, to be started where memory is short. Prints a line for each:
 * the answer, or the refusal's code and details.
 */
const workspace = process.env["STC_TEST_WORKSPACE"] ?? temporaryDirectory();
const tool = bash.make(configFor(workspace));
const stand = await confinedStand([tool]);
for (const command of process.argv.slice(2)) {
  const answer = await stand.call(tool, tool.input.parse({ command })).catch((error: unknown) => {
    if (!(error instanceof Refusal)) throw error;
    return { code: error.code, details: error.details };
  });
  console.log(JSON.stringify(answer));
}
await stand.close();
process.exit(0);
