import { Link } from "@tanstack/react-router";

import { oneLine } from "@/ui/layout";

/** The most nodes that are named. */
const NAMED = 8;

/** Links to nodes; of many the first ones, and how many more there are. */
export function NodeLinks({ names }: { names: readonly string[] }) {
  return (
    <>
      {names.slice(0, NAMED).map((name, index) => (
        <span key={name}>
          {index > 0 && ", "}
          <Link to="/nodes/$name" params={{ name }} className={oneLine}>
            {name}
          </Link>
        </span>
      ))}
      {names.length > NAMED && ` and ${names.length - NAMED} more`}
    </>
  );
}
