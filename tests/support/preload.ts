import { afterAll } from "bun:test";
import fc from "fast-check";
import { endFile } from "./after-file.ts";

/** Property tests run the same cases each time, unless `STC_TEST_SEED` names another seed. */
fc.configureGlobal({ seed: Number(process.env["STC_TEST_SEED"] ?? 1) });

afterAll(endFile);
