import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Download } from "lucide-react";
import { Fragment } from "react";

import { artefactsQuery } from "@/api/queries";
import type { Artefact } from "@/api/schema";
import { bytes, moment } from "@/components/format";
import { DataTable } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { muted, oneLine, Panel, prose } from "@/ui/layout";

/** The files of a job's checkpoint folder, or of the folder at a path in it. */
export function ArtefactsPanel({ job, path }: { job: number; path: string }) {
  const query = useInfiniteQuery(artefactsQuery(job, path));
  return (
    <Panel title={<Way job={job} path={path} />} flush>
      <DataTable
        label="Files"
        rows={query.data?.pages.flatMap((page) => page.results)}
        rowKey={({ name }) => name}
        columns={[
          { header: "Name", isRowHeader: true, className: prose, cell: (entry) => <Name job={job} entry={entry} /> },
          {
            header: "Size",
            isNumeric: true,
            className: oneLine,
            cell: (entry) => (entry.bytes === null ? "" : bytes(entry.bytes)),
          },
          { header: "Modified", className: `${oneLine} ${muted}`, cell: (entry) => moment(entry.modified_at) },
        ]}
        query={query}
        empty={<EmptyState title="Nothing in $ALLOT_CHECKPOINT_DIR" />}
      />
    </Panel>
  );
}

function Name({ job, entry: { kind, name, path } }: { job: number; entry: Artefact }) {
  if (kind === "folder") return <FolderLink job={job} path={path} name={`${name}/`} />;
  if (kind === "file") {
    return (
      <a href={`/api/v1/jobs/${job}/artefacts/content?${new URLSearchParams({ path })}`} download title="Download">
        {name} <Download size={14} aria-hidden />
      </a>
    );
  }
  return (
    <>
      {name} <span className={muted}>{kind === "link" ? "link, not followed" : "no file"}</span>
    </>
  );
}

function FolderLink({ job, path, name }: { job: number; path: string; name: string }) {
  return (
    <Link to="/jobs/$id" params={{ id: String(job) }} search={{ tab: "files", path }}>
      {name}
    </Link>
  );
}

/** From the job's folder to this one, each a link but the last. */
function Way({ job, path }: { job: number; path: string }) {
  const names = ["Checkpoint folder", ...path.split("/").filter(Boolean)];
  return names.map((name, index) => (
    <Fragment key={index}>
      {index > 0 && " / "}
      {index < names.length - 1 ? (
        <FolderLink job={job} path={names.slice(1, index + 1).join("/")} name={name} />
      ) : (
        name
      )}
    </Fragment>
  ));
}
