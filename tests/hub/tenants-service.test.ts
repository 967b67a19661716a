import { testSidecars } from "./tenant-sidecars.ts";

testSidecars("sidecars of two tenants at one hub", () => ({ store: "sqlite://./approvals.sqlite" }));
