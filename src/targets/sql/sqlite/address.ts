const ADDRESS = /^sqlite:(?:\/\/)?([^?#\0]+)$/;

/** Returns the path in the URL of a database; undefined for another URL. */
export function pathIn(url: string): string | undefined {
  return ADDRESS.exec(url)?.[1];
}
