import { overHub } from "../../support/hub-state.ts";

await overHub("quotas/quotas.test.ts");
