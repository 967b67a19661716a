import { computed } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import { PAGES } from "./pages.ts";
import { hrefOf } from "./route.ts";
import { permissions } from "./session.ts";
import { type AppPage, mediaSignal, PAGE_GROUPS, route } from "./state.ts";

export const mayOpen = computed(() => {
  const isOpen = ({ permission }: AppPage): boolean => permission !== undefined && permissions.value.has(permission);
  return PAGES.some(isOpen) ? PAGES.filter((page) => page.permission === undefined || isOpen(page)) : [];
});
export const current = computed(() => mayOpen.value.find(({ name }) => name === route.value.page));

const groups = computed(() =>
  PAGE_GROUPS.map((group) => ({ group, pages: mayOpen.value.filter((page) => page.group === group) })).filter(
    ({ pages }) => pages.length > 0,
  ),
);

/** Narrower than this, the navigation shows the pages of one group. */
const isOneGroup = mediaSignal("(max-width: 1240px)");

/** The pages in their groups. Where they do not fit in one line: the groups, and the pages of the current one. */
export function Navigation(): VNode {
  const page = current.value;
  const name = page?.name;
  useEffect(() => {
    if (name !== undefined) document.querySelector("nav [aria-current=page]")?.scrollIntoView({ block: "nearest" });
  }, [name]);
  if (!isOneGroup.value) {
    return (
      <nav aria-label="Pages">
        {groups.value.map(({ group, pages }) => (
          <div key={group} class="group">
            <p aria-hidden="true">{group}</p>
            <Links pages={pages} label={group} />
          </div>
        ))}
      </nav>
    );
  }
  const shown = groups.value.find(({ group }) => group === page?.group) ?? groups.value[0];
  return (
    <>
      <nav class="groups" aria-label="Groups of pages">
        <ul>
          {groups.value.map(({ group, pages }) => (
            <li key={group}>
              <a href={hrefOf(pages[0]?.name ?? "")} aria-current={group === page?.group ? "true" : undefined}>
                {group}
                {group !== shown?.group && <Count pages={pages} />}
              </a>
            </li>
          ))}
        </ul>
      </nav>
      {shown !== undefined && (
        <nav class="in-group" aria-label={`Pages: ${shown.group}`}>
          <Links pages={shown.pages} />
        </nav>
      )}
    </>
  );
}

function Links({ pages, label }: { readonly pages: readonly AppPage[]; readonly label?: string }): VNode {
  return (
    <ul aria-label={label}>
      {pages.map((page) => (
        <li key={page.name}>
          <a href={hrefOf(page.name)} aria-current={page === current.value ? "page" : undefined}>
            {page.title}
            <Count pages={[page]} />
          </a>
        </li>
      ))}
    </ul>
  );
}

function Count({ pages }: { readonly pages: readonly AppPage[] }): VNode | null {
  const count = pages.reduce((sum, page) => sum + (page.count?.value ?? 0), 0);
  return count === 0 ? null : (
    <span class="count">
      {count}
      <span class="sr-only"> waiting</span>
    </span>
  );
}
