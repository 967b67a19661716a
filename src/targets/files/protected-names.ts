/** Invisible characters: file systems that fold names may drop them. */
const IGNORABLE = /\p{Default_Ignorable_Code_Point}/gu;

/** Names that Git's own checks take for `.git`, on file systems that fold case, drop characters or have short names. */
const GIT = /^(?:\.git|git~\d{1,4})$/;
/** The same for `.gitmodules`; the last alternative is the short name when many names are like it. */
const GIT_MODULES = /^(?:\.gitmodules|gitmod~[1-4]|gi7eb[a0-9~]{1,3})$/;

/** Returns whether a name is one of Git's own: its directory (or the file that points to it), or the list of submodules. */
export function isGitInternal(name: string): boolean {
  const folded = foldName(name);
  return GIT.test(folded) || GIT_MODULES.test(folded);
}

/** Returns one spelling for all names that some file system might treat as the same. */
export function foldName(name: string): string {
  const visible = name.normalize("NFKC").toLowerCase().replace(IGNORABLE, "").normalize("NFKC").toLowerCase();
  // Windows shares ignore text after a colon, and trailing dots and spaces.
  const [stem = ""] = visible.split(":", 1);
  let end = stem.length;
  while (end > 0 && (stem[end - 1] === "." || stem[end - 1] === " ")) end -= 1;
  return stem.slice(0, end);
}
