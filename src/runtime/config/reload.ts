import { z } from "zod";

/** How the service takes over a configuration, manifests and keys that have changed. */
export const reload = z
  .strictObject({
    /** `request`: on SIGHUP, `POST /reload` and `stc reload`. `watch`: besides, when a file changes, so that whoever may write a manifest may run it. `off`: never. */
    trigger: z.enum(["request", "watch", "off"]).default("request"),
    /** Reloads a minute, refused ones too; a change that comes too soon is taken over later. */
    perMinuteMax: z.int().min(1).max(6_000).default(30),
    /** For one manifest to finish loading, at the start too; one that computes without an end is not stopped by it. */
    importTimeoutMs: z.int().min(1).max(120_000).default(10_000),
  })
  .prefault({});
