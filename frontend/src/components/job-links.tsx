import { Link } from "@tanstack/react-router";

/** Several jobs, with commas between them. */
export function JobLinks({ ids }: { ids: readonly number[] }) {
  return ids.map((id, index) => (
    <span key={id}>
      {index > 0 && ", "}
      <Link to="/jobs/$id" params={{ id: String(id) }}>
        job {id}
      </Link>
    </span>
  ));
}
