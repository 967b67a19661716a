/** The features of an edition that decide how a field is written and read. */
export interface Features {
  readonly fieldPresence: string;
  readonly repeatedFieldEncoding: string;
  readonly messageEncoding: string;
  readonly enumType: string;
}

export type FeatureSet = Partial<Features>;

const PROTO2: Features = {
  fieldPresence: "EXPLICIT",
  repeatedFieldEncoding: "EXPANDED",
  messageEncoding: "LENGTH_PREFIXED",
  enumType: "CLOSED",
};
const EDITION: Features = { ...PROTO2, repeatedFieldEncoding: "PACKED", enumType: "OPEN" };
const PROTO3: Features = { ...EDITION, fieldPresence: "IMPLICIT" };

/** Editions whose features are known here; those after them have kept these. */
const EDITIONS: ReadonlySet<string> = new Set(["EDITION_2023", "EDITION_2024"]);

interface File {
  readonly name?: string;
  readonly syntax?: string;
  readonly edition?: string | number;
  readonly options?: { readonly features?: FeatureSet };
}

/** Throws for a syntax or an edition that is not known. */
export function featuresOfFile({ name, syntax = "proto2", edition, options }: File): Features {
  if (syntax === "proto3") return PROTO3;
  if (syntax === "proto2") return PROTO2;
  if (syntax !== "editions" || !EDITIONS.has(String(edition))) {
    throw new Error(`${name ?? "a file"} has the unknown edition ${String(edition ?? syntax)}`);
  }
  return featuresIn(EDITION, options?.features);
}

/** The features around, and what is set here in their place. */
export function featuresIn(around: Features, own: FeatureSet | undefined): Features {
  return own === undefined ? around : { ...around, ...own };
}
