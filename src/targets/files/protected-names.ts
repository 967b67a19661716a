/** Characters that show nothing: file systems that fold names may drop them. */
const IGNORABLE = /\p{Default_Ignorable_Code_Point}/gu;

/** What Git's own checks know `.git` by, on file systems that fold case, drop characters or have short names. */
const GIT = /^(?:\.git|git~\d{1,4})$/;
/** The same for `.gitmodules`; the second is what is left of its name where there are many like it. */
const GIT_MODULES = /^(?:\.gitmodules|gitmod~[1-4]|gi7eb[a0-9~]{1,3})$/;

/** Names by which Git's own files are known: its directory (or the file that points to it), and the list of submodules. */
export function isGitInternal(name: string): boolean {
  const folded = foldName(name);
  return GIT.test(folded) || GIT_MODULES.test(folded);
}

/** One spelling for all under which some file system might know the same name. */
export function foldName(name: string): string {
  const visible = name.normalize("NFKC").toLowerCase().replace(IGNORABLE, "").normalize("NFKC").toLowerCase();
  // Windows' shares ignore what follows a colon, and trailing dots and blanks.
  const [stem = ""] = visible.split(":", 1);
  let end = stem.length;
  while (end > 0 && (stem[end - 1] === "." || stem[end - 1] === " ")) end -= 1;
  return stem.slice(0, end);
}
