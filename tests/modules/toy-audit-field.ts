import { plugin } from "bun";

/**
 * Adds one row to the fields of the audit, as an author would write it, in the process that preloads this file. What fills the field is
 * the test's own lines.
 */
const ROW = `
  shelf: {
    read: textAt("shelf"),
    csv: "shelf",
    ocsf: "shelf",
    column: { title: "Shelf" },
    filter: { param: "shelf", help: "shelf of the book", label: "Shelf", occurs: "sometimes" },
  },
} as const satisfies`;

void plugin({
  name: "toy-audit-field",
  setup: (build) => {
    build.onLoad({ filter: /\/core\/audit-fields\.ts$/ }, async ({ path }) => ({
      contents: (await Bun.file(path).text()).replace("\n} as const satisfies", ROW),
      loader: "ts",
    }));
  },
});
