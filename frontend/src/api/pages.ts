/** Lists come in pages; the addresses of a page's neighbours carry cursors. */

/** As every list of the API is answered. */
export interface Page<T> {
  results: T[];
  next: string | null;
  previous: string | null;
}

const LARGEST_PAGE = 200;

/** Every result of a list, whose pages `ask` fetches. */
export async function everyPage<T>(
  ask: (which: { page_size: number; cursor?: string | undefined }) => Promise<Page<T>>,
): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | undefined;
  do {
    const page = await ask({ page_size: LARGEST_PAGE, cursor });
    all.push(...page.results);
    cursor = cursorOf(page.next);
  } while (cursor);
  return all;
}

/** The cursor inside the address of a list's next or previous page. */
export function cursorOf(address: string | null): string | undefined {
  if (!address) return undefined;
  return new URL(address, "http://any").searchParams.get("cursor") ?? undefined;
}
