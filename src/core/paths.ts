/** Returns whether a path is the directory or lies below it. Both must be absolute, without links and `..`. */
export function isBelow(path: string, directory: string): boolean {
  return path === directory || path.startsWith(directory === "/" ? directory : `${directory}/`);
}
