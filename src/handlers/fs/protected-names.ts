/** Characters that show nothing: file systems that fold names may drop them. */
const IGNORABLE = /\p{Default_Ignorable_Code_Point}/gu;

/** What Git's own checks know `.git` by, on file systems that fold case, drop characters or have short names. */
const GIT = /^(?:\.git|git~\d{1,4})$/;

/** Names by which Git's own files are known: its directory (or the file that points to it), and the list of submodules. */
export function isGitInternal(name: string): boolean {
  const folded = foldName(name);
  return GIT.test(folded) || folded === ".gitmodules";
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
