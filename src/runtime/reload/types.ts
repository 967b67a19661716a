/** Who asks: `watch` looked at the files and wants nothing when they say what they said; `library` is whoever embeds us. */
export type ReloadAsker = "watch" | "signal" | "library" | { readonly issuer: string; readonly subject: string };

export type Reloaded =
  | { readonly outcome: "changed" | "unchanged"; readonly generation: number; readonly sha256: string }
  /** Nothing has changed; each problem names its file or field. */
  | { readonly outcome: "refused"; readonly problems: readonly string[] }
  /** Nothing was looked at, or taken. */
  | { readonly outcome: "busy"; readonly reason: BusyReason; readonly retryAfterMs: number };

/** Too many a minute; too many exchanged configurations that calls have not left; the service ends. */
export type BusyReason = "rate" | "lingering" | "closing";

/** What is in use, for operators. */
export interface ConfigurationState {
  /** Counted from 1 since the start. */
  readonly generation: number;
  /** Hex, over configuration, manifests and the files that they name. */
  readonly sha256: string;
  /** ISO 8601. */
  readonly since: string;
  /** The last reload, when it was refused; `at` in ISO 8601. */
  readonly lastRefused: { readonly at: string; readonly problems: number } | null;
}

/** What became of a reload, for the operators' log. */
export interface ReloadEvent {
  readonly type: "configuration.changed" | "configuration.refused";
  readonly by: string;
  /** The one that is in use. */
  readonly generation: number;
  readonly problems?: readonly string[];
}
