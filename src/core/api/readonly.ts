/** A value that nobody changes, at any depth. */
export type ReadonlyDeep<T> = T extends object ? { readonly [Member in keyof T]: ReadonlyDeep<T[Member]> } : T;
