/** The virtual folder that the runtime shows to code inside a compiled binary. The kernel does not know it. */
export const EMBEDDED = "/$bunfs/";
