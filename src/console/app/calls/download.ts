import { signal } from "@preact/signals";
import { ApiError, fetchAnswer } from "../api.ts";
import { announce, errorOf, notifyError } from "../state.ts";
import { bytesText, OFFLINE } from "../words.ts";

/** Files that the service sends and the person keeps. */

/** A download in progress. */
export interface Downloading {
  readonly name: string;
  readonly bytes: number;
  readonly cancel: () => void;
}

export const downloading = signal<Downloading | undefined>(undefined);

/** Saves an answer as a file. One that was cut off is not saved. */
export async function download(path: string, name: string): Promise<void> {
  downloading.value?.cancel();
  const cancelling = new AbortController();
  const cancel = (): void => cancelling.abort();
  const show = (bytes: number): void => {
    downloading.value = { name, bytes, cancel };
  };
  show(0);
  try {
    const answer = await fetchAnswer(path, cancelling.signal);
    const blob = await readWhole(answer, show);
    save(blob, name);
    // The browser shows what it saves.
    announce(`${name} was saved: ${bytesText(blob.size)}.`);
  } catch (error) {
    if (!cancelling.signal.aborted) notifyError(`${name} could not be saved`, error);
  } finally {
    // The next one may have begun.
    if (downloading.value?.cancel === cancel) downloading.value = undefined;
  }
}

/** @throws {ApiError} when the connection was cut off: then the answer is not whole */
async function readWhole({ body, headers }: Response, show: (bytes: number) => void): Promise<Blob> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  try {
    const reader = body?.getReader();
    for (let read = await reader?.read(); read !== undefined && !read.done; read = await reader?.read()) {
      parts.push(read.value);
      bytes += read.value.length;
      show(bytes);
    }
  } catch (error) {
    throw error instanceof DOMException ? errorOf(error) : new ApiError(OFFLINE, "It was cut off before its end.");
  }
  return new Blob(parts, { type: headers.get("content-type") ?? "application/octet-stream" });
}

const LINK_MS = 60_000;

function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), LINK_MS);
}
