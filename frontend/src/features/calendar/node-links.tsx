import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { nodesQuery } from "@/api/queries";
import { oneLine } from "@/ui/layout";

/** The most nodes that are named. */
const NAMED = 8;

/** The names of the nodes that there are; undefined while they are not known. */
export function useNodeNames(): ReadonlySet<string> | undefined {
  const { data } = useQuery(nodesQuery);
  return useMemo(() => data && new Set(data.map(({ name }) => name)), [data]);
}

interface NodeLinksProps {
  names: readonly string[];
  /** The nodes that there are: those that were removed since have no page. */
  known: ReadonlySet<string> | undefined;
}

/** Links to nodes; of many the first ones, and how many more there are. */
export function NodeLinks({ names, known }: NodeLinksProps) {
  return (
    <>
      {names.slice(0, NAMED).map((name, index) => (
        <span key={name}>
          {index > 0 && ", "}
          {known && !known.has(name) ? (
            <span className={oneLine} title="This node was removed.">
              {name}
            </span>
          ) : (
            <Link to="/nodes/$name" params={{ name }} className={oneLine}>
              {name}
            </Link>
          )}
        </span>
      ))}
      {names.length > NAMED && ` and ${names.length - NAMED} more`}
    </>
  );
}
