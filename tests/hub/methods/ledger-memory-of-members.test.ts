import { overHub } from "../../support/hub-state.ts";

await overHub("data-flow/ledger-memory.test.ts");
