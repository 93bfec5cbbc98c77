import { Button } from "@/ui/button";
import styles from "@/ui/show-more.module.css";

/** A list that the server gives page by page; TanStack Query's infinite queries are such. */
export interface Pages {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => unknown;
}

interface ShowMoreProps {
  query: Pages;
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
