import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { ApiError, request } from "./api.ts";
import { Unread } from "./records.tsx";
import { whenBack } from "./session.ts";
import { type AppPage, errorOf, type PageContent, type PageHead } from "./state.ts";

/** Returns why the code of a page could not be read: the service is away, or it is another version by now. */
async function failure(): Promise<ApiError> {
  try {
    await request("GET", "/healthz");
    return new ApiError("PAGE_NOT_FOUND", "The service may have another version by now: load the console again.");
  } catch (error) {
    return errorOf(error);
  }
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
      const found = await read();
      if (isRunning) stop = found.run?.();
      content.value = found;
    } catch {
      content.value = await failure();
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
        <Unread title={head.title} read={read} again={() => location.reload()} />
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
