import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { ApiError, isReachable } from "./api.ts";
import { Unread } from "./records.tsx";
import { whenBack } from "./session.ts";
import type { AppPage, PageContent, PageHead } from "./state.ts";
import { OFFLINE } from "./words.ts";

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
      isReachable.value = false;
      content.value = new ApiError(OFFLINE, "This page cannot be read from the service.");
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
