import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Trash2 } from "lucide-react";
import { useState } from "react";

import { answerOf, api } from "@/api/client";
import { savedSearchesQuery } from "@/api/queries";
import type { SavedSearch } from "@/api/schema";
import { isFiltered, type JobSearch, readJobSearch } from "@/components/job-search";
import { useSentForm } from "@/components/sent-form";
import { mayActFor } from "@/components/roles";
import { useSession } from "@/components/session";
import { Button, IconButton } from "@/ui/button";
import { Dialog } from "@/ui/dialog";
import { SelectField, TextField } from "@/ui/field";
import { Form } from "@/ui/form";
import { muted, Row, Stack } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

/** The searches that have a name, one's own and shared ones, and a form that gives the present one a name. */
export function SavedSearches({ search, onClose }: { search: JobSearch; onClose: () => void }) {
  const [saved, setSaved] = useState(0);
  return (
    <Dialog open onClose={onClose} title="Saved searches">
      <Stack>
        <SearchList onOpen={onClose} />
        {(isFiltered(search) || search.sort || search.group) && (
          <SaveForm key={saved} search={search} onSaved={() => setSaved(saved + 1)} />
        )}
      </Stack>
    </Dialog>
  );
}

function SearchList({ onOpen }: { onOpen: () => void }) {
  const saved = useQuery(savedSearchesQuery);
  const searches = saved.data ?? [];
  if (saved.isPending) return null;
  if (searches.length === 0) {
    return <p className={muted}>No saved searches yet. Choose filters or an order on the page, then save them here.</p>;
  }
  return (
    <ul>
      {searches.map((each) => (
        <li key={each.id}>
          <Row>
            <Link to="/jobs" search={searchOf(each)} onClick={onOpen}>
              {each.name}
            </Link>
            {each.tenant && (
              <span className={muted}>
                shared with {each.tenant} by {each.owner}
              </span>
            )}
            {each.may_delete && <DeleteSearch search={each} />}
          </Row>
        </li>
      ))}
    </ul>
  );
}

function searchOf({ search }: SavedSearch): JobSearch {
  return readJobSearch(Object.fromEntries(new URLSearchParams(search)));
}

function DeleteSearch({ search: { id, name } }: { search: SavedSearch }) {
  const say = useSay();
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: () => answerOf(api.DELETE("/jobs/searches/{search_id}", { params: { path: { search_id: id } } })),
    onError: (error) => say("failed", error.message),
    onSettled: () => queries.invalidateQueries({ queryKey: savedSearchesQuery.queryKey }),
  });
  return (
    <IconButton
      label={`Delete ${name}`}
      icon={<Trash2 size={14} />}
      onClick={() => remove.mutate()}
      disabled={remove.isPending}
    />
  );
}

function SaveForm({ search, onSaved }: { search: JobSearch; onSaved: () => void }) {
  const me = useSession();
  const queries = useQueryClient();
  const tenants = me.tenants.filter(({ name }) => mayActFor(me, name));
  const save = useMutation({
    mutationFn: ({ name, tenant }: { name: string; tenant: string }) =>
      answerOf(
        api.POST("/jobs/searches", {
          body: { name, tenant: tenant || null, search: new URLSearchParams({ ...search }).toString() },
        }),
      ),
    onSuccess: onSaved,
    onSettled: () => queries.invalidateQueries({ queryKey: savedSearchesQuery.queryKey }),
  });
  const form = useSentForm({ name: "", tenant: "" }, save);
  return (
    <Form onSubmit={form.sending.onSubmit} notice={form.sending.notice}>
      <TextField label="Name of this search" required maxLength={63} {...form.field("name")} />
      <SelectField
        label="For"
        {...form.field("tenant")}
        options={[
          { value: "", label: "me alone" },
          ...tenants.map(({ name }) => ({ value: name, label: `everybody in ${name}` })),
        ]}
      />
      <Button type="submit" look="primary" busy={form.sending.busy}>
        Save
      </Button>
    </Form>
  );
}
