import { overHub } from "../../support/hub-state.ts";

await overHub("data-flow/stored-limits.test.ts");
