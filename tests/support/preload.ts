import { afterAll, setDefaultTimeout } from "bun:test";
import fc from "fast-check";
import { endFile } from "./after-file.ts";

/** Property tests run the same cases each time, unless `STC_TEST_SEED` names another seed. */
fc.configureGlobal({ seed: Number(process.env["STC_TEST_SEED"] ?? 1) });

/** Ends a test that hangs, in milliseconds. No test may come near it, however busy the machine is. */
setDefaultTimeout(300_000);

afterAll(endFile);
