/** Creates and reads the signing key of a configuration, as a start does, and prints its public half: `start-key.ts <folder>`. */
import { createPublicKey } from "node:crypto";
import { createCheckpointKey, readCheckpointKey } from "../../../src/runtime/composition/audit.ts";
import { signingConfig } from "./signing-config.ts";

const config = signingConfig(process.argv[2] ?? "");
const problems = [...createCheckpointKey(config)];
const key = readCheckpointKey(config, problems);
console.log(key === undefined ? problems.join("\n") : createPublicKey(key).export({ format: "jwk" }).x);
