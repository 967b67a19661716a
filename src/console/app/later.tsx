import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { ApiError, request } from "./api.ts";
import { Unread } from "./records.tsx";
import { whenBack } from "./session.ts";
import { type AppPage, errorOf, type PageContent, type PageHead } from "./state.ts";

/**
 * Reads the code of a page; once more where the service turns out to be there, because it may have come back meanwhile.
 *
 * @throws {ApiError} when the service is away, or has no such code
 */
async function readCode(read: () => Promise<PageContent>): Promise<PageContent> {
  try {
    return await read();
  } catch {
    await request("GET", "/healthz");
  }
  try {
    return await read();
  } catch {
    throw new ApiError("PAGE_NOT_FOUND", wasLoadedAgain() ? STILL_MISSING : MISSING);
  }
}

const MISSING = "The service may have another version by now: load the console again.";
const STILL_MISSING =
  "The console was loaded again, and the service still does not have the code of this page: replicas of several versions may answer. Repeat it when their update is complete.";
/** Set when somebody loads the console again because of missing code, until a page's code was read. */
const LOADED_AGAIN_ITEM = "stc-console-loaded-again";

function wasLoadedAgain(): boolean {
  return sessionStorage.getItem(LOADED_AGAIN_ITEM) !== null;
}

/** Reloads the console when a person asks for it. An automatic reload would repeat while two versions answer. */
function loadConsoleAgain(): void {
  sessionStorage.setItem(LOADED_AGAIN_ITEM, "1");
  location.reload();
}

/**
 * Returns a page whose code is read when it is opened for the first time, so that the first load has only what every operator
 * needs.
 */
export function later(head: PageHead, read: () => Promise<PageContent>): AppPage {
  const content = signal<PageContent | ApiError | undefined>(undefined);
  const loaded = (): PageContent | undefined => (content.value instanceof ApiError ? undefined : content.value);
  let reading = false;
  let isRunning = false;
  let stop: (() => void) | undefined;

  const load = async (): Promise<void> => {
    if (reading || loaded() !== undefined) return;
    reading = true;
    try {
      const found = await readCode(read);
      sessionStorage.removeItem(LOADED_AGAIN_ITEM);
      if (isRunning) stop = found.run?.();
      content.value = found;
    } catch (error) {
      content.value = errorOf(error);
    } finally {
      reading = false;
    }
  };

  function View(): VNode {
    useEffect(() => {
      void load();
      return whenBack(() => void load());
    }, []);
    const Page = loaded()?.view;
    if (Page !== undefined) return <Page />;
    const { value } = content;
    const read = { path: head.name, ...(value instanceof ApiError && { error: value }) };
    return (
      <div class="sheet">
        <Unread title={head.title} read={read} again={loadConsoleAgain} againText="Load the console again" />
      </div>
    );
  }

  return {
    ...head,
    view: View,
    get keys() {
      return loaded()?.keys ?? [];
    },
    run() {
      isRunning = true;
      stop = loaded()?.run?.();
      return () => {
        isRunning = false;
        stop?.();
        stop = undefined;
      };
    },
  };
}
