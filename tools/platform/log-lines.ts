/** How much of a log goes into one answer. */
export const LOG_BUDGET = { lineCharactersMax: 8_192, charactersMax: 524_288 } as const;
