import type { UseInfiniteQueryResult } from "@tanstack/react-query";

import { Button } from "@/ui/button";
import styles from "@/components/show-more.module.css";

interface ShowMoreProps {
  query: Pick<UseInfiniteQueryResult, "hasNextPage" | "isFetchingNextPage" | "fetchNextPage">;
  children?: string;
}

/** At the end of a list of which there is more. */
export function ShowMore({ query, children = "Show more" }: ShowMoreProps) {
  if (!query.hasNextPage) return null;
  return (
    <div className={styles.more}>
      <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
        {children}
      </Button>
    </div>
  );
}
