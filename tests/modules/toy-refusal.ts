import { plugin } from "bun";

/** Adds one row to the refusals, as an author would write it, in the process that preloads this file. */
const ROW = `
  EMBARGOED: { stage: "PERMISSION", decision: "DENIED", http: 451, retryable: false, cause: "policy" },
} as const satisfies Record<string, RefusalRow>`;

void plugin({
  name: "toy-refusal",
  setup: (build) => {
    build.onLoad({ filter: /\/core\/refusals\.ts$/ }, async ({ path }) => ({
      contents: (await Bun.file(path).text()).replace("\n} as const satisfies Record<string, RefusalRow>", ROW),
      loader: "ts",
    }));
  },
});
