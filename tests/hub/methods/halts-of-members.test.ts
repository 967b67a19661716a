import { overHub } from "../../support/hub-state.ts";

await overHub("halts/halts.test.ts");
