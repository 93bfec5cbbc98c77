import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Lightbulb, Pencil } from "lucide-react";

import { cellsQuery } from "@/api/cell-queries";
import type { Cells } from "@/api/schema";
import { CellKey } from "@/components/cells/cell-use";
import { counted, moment } from "@/components/format";
import { useSession } from "@/components/session";
import { ChainPanel } from "@/features/cells/chain-panel";
import { buttonClass } from "@/ui/button";
import { EmptyState, ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { PageLayout } from "@/ui/layout";
import styles from "@/features/cells/cells.module.css";

const route = getRouteApi("/cells");

export function CellsPage() {
  const me = useSession();
  const query = useQuery(cellsQuery);
  const { chain: wanted, at } = route.useSearch();
  const cells = query.data;
  const chains = cells?.chains.filter(({ name }) => at === undefined || name === wanted) ?? [];
  return (
    <PageLayout
      title="Cells"
      lead={cells ? <Lead cells={cells} /> : "Groups of GPUs near each other, and their owners."}
      actions={me.is_operator && <Actions />}
    >
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines count={8} />}
      {cells && <Problems cells={cells} />}
      {cells?.chains.length === 0 && (
        <EmptyState title="No GPU is divided by cells">
          Virtual clusters are guaranteed counts of GPUs, wherever these are. Cells guarantee whole nodes, sockets or
          switches{me.is_operator ? ": begin with Edit." : "; an operator declares them."}
        </EmptyState>
      )}
      {chains.length > 0 && (
        <>
          <CellKey />
          {chains.map((chain) => (
            <ChainPanel key={chain.name} chain={chain} at={at} />
          ))}
        </>
      )}
    </PageLayout>
  );
}

function Lead({ cells }: { cells: Cells }) {
  return (
    <>
      <span>Groups of GPUs near each other, and their owners.</span>
      {cells.changed_at && (
        <span>
          Version {cells.version}, {moment(cells.changed_at)}
          {cells.changed_by && ` by ${cells.changed_by.replace(/^user /, "")}`}
        </span>
      )}
    </>
  );
}

function Actions() {
  return (
    <>
      <Link to="/cells/advice" className={buttonClass()}>
        <Lightbulb size={15} aria-hidden />
        Advice
      </Link>
      <Link to="/cells/edit" className={buttonClass("primary")}>
        <Pencil size={15} aria-hidden />
        Edit
      </Link>
    </>
  );
}

/** Where the hardware of today is no longer what was declared. */
function Problems({ cells }: { cells: Cells }) {
  if (cells.problems.length === 0) return null;
  return (
    <Notice>
      <strong>{counted(cells.problems.length, "difference")} from the present hardware</strong>
      <ul className={styles.problems}>
        {cells.problems.map(({ field, problem }) => (
          <li key={`${field} ${problem}`}>
            {field}: {problem}
          </li>
        ))}
      </ul>
    </Notice>
  );
}
