import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { ServerCog } from "lucide-react";
import { useMemo, useState } from "react";

import { adviceQuery, cellsQuery } from "@/api/cell-queries";
import { answerOf, api } from "@/api/client";
import { gpuModelsQuery, virtualClustersQuery } from "@/api/queries";
import type { Cells, FieldProblem } from "@/api/schema";
import { moment } from "@/components/format";
import { useSession } from "@/components/session";
import { linesOf, parseYaml } from "@/components/yaml/document";
import { ApplyBar } from "@/features/cell-editor/apply-bar";
import { type CellDraft, isDocument, withHardwareOf, writeCells } from "@/features/cell-editor/document";
import { HardwarePanel } from "@/features/cell-editor/hardware-panel";
import { OwnersPanel } from "@/features/cell-editor/owners-panel";
import { PinnedPanel } from "@/features/cell-editor/pinned-panel";
import { pathOf, ProblemList, sentenceOf, useCellCheck } from "@/features/cell-editor/problems";
import { TypesPanel } from "@/features/cell-editor/types-panel";
import { Button } from "@/ui/button";
import { Tabs } from "@/ui/choice";
import { Dialog, DialogActions } from "@/ui/dialog";
import { EmptyState, ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { PageLayout, Panel, Row, Stack } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";
import { useSay } from "@/ui/toasts";

const YamlEditor = onDemand(
  async () => (await import("@/components/yaml/editor")).YamlEditor,
  <SkeletonLines count={12} />,
);

const route = getRouteApi("/cells/edit");
const TITLE = "Edit the cells";

export function EditorPage() {
  const me = useSession();
  const query = useQuery(cellsQuery);
  const { advice } = route.useSearch();
  const advised = useQuery({ ...adviceQuery(advice ?? ""), enabled: advice !== undefined, staleTime: Infinity });
  if (!me.is_operator) {
    return (
      <PageLayout title={TITLE}>
        <EmptyState title="Operators divide the cluster by cells">
          You can <Link to="/cells">see how it is divided</Link>.
        </EmptyState>
      </PageLayout>
    );
  }
  const failed = query.error ?? advised.error;
  if (!query.data || (advice !== undefined && !advised.data)) {
    return (
      <PageLayout title={TITLE}>
        {failed ? <ErrorNotice error={failed} onRetry={() => void query.refetch()} /> : <SkeletonLines count={10} />}
      </PageLayout>
    );
  }
  return (
    <Editor
      key={advice}
      newest={query.data}
      proposed={advised.data?.specification ?? null}
      onLook={() => void query.refetch()}
    />
  );
}

interface EditorProps {
  newest: Cells;
  /** What to begin with instead of the cells in force. */
  proposed: CellDraft | null;
  onLook: () => void;
}

/** The draft is plain JSON. While the text is being written it leads, and the draft is what could last be read. */
function Editor({ newest, proposed, onLook }: EditorProps) {
  const [base, setBase] = useState(newest);
  const [draft, setDraft] = useState<unknown>(proposed ?? newest.specification);
  const [text, setText] = useState<string | null>(null);
  const [tab, setTab] = useState<"form" | "text">("form");
  const syntax = useMemo(() => (text === null ? null : parseYaml(text, "A specification").problem), [text]);
  const check = useCellCheck(draft);
  const change = (next: CellDraft) => {
    setDraft(next);
    setText(null);
  };
  const restart = (cells: Cells) => {
    setBase(cells);
    change(cells.specification);
  };
  const write = (next: string) => {
    setText(next);
    const { data } = parseYaml(next, "A specification");
    if (data) setDraft(data);
  };
  return (
    <PageLayout
      title={TITLE}
      lead="Types of cells, the hardware made of them, and what each virtual cluster owns. Changes take effect when you apply them."
      actions={
        <>
          <Link to="/cells">Back to the cells</Link>
          {isDocument(draft) && <InventoryButton document={draft} onChange={change} />}
        </>
      }
    >
      {newest.version !== base.version && (
        <Conflict newest={newest} onTake={() => restart(newest)} onKeep={() => setBase(newest)} />
      )}
      <Tabs
        label="Ways to edit"
        value={tab}
        onChange={setTab}
        tabs={[
          {
            value: "form",
            label: "Form",
            content: () => <Form draft={draft} syntax={syntax} check={check} onChange={change} />,
          },
          {
            value: "text",
            label: "YAML",
            content: () => <Text draft={draft} text={text} syntax={syntax} problems={check.problems} onWrite={write} />,
          },
        ]}
      />
      <ProblemList problems={check.problems} />
      <ApplyBar
        specification={draft}
        version={base.version}
        check={check}
        syntax={syntax && `Line ${syntax.line}: ${syntax.message}`}
        isChanged={draft !== base.specification}
        onConflict={onLook}
      />
    </PageLayout>
  );
}

interface ConflictProps {
  newest: Cells;
  onTake: () => void;
  onKeep: () => void;
}

function Conflict({ newest, onTake, onKeep }: ConflictProps) {
  return (
    <Notice>
      <Stack>
        <p>
          {newest.changed_by?.replace(/^user /, "") ?? "Somebody"} changed the cells meanwhile (version {newest.version}
          , {moment(newest.changed_at)}). Your draft is still here.
        </p>
        <Row>
          <Button onClick={onTake}>Take theirs</Button>
          <Button onClick={onKeep}>Go on with mine</Button>
        </Row>
      </Stack>
    </Notice>
  );
}

type Problem = ReturnType<typeof parseYaml>["problem"];

interface FormProps {
  draft: unknown;
  syntax: Problem;
  check: ReturnType<typeof useCellCheck>;
  onChange: (document: CellDraft) => void;
}

function Form({ draft, syntax, check, onChange }: FormProps) {
  const clusters = useQuery(virtualClustersQuery);
  const models = useQuery(gpuModelsQuery);
  if (syntax || !isDocument(draft)) {
    return (
      <Notice tone="failed">
        The form returns when the YAML is valid again. {syntax && `Line ${syntax.line}: ${syntax.message}`}
      </Notice>
    );
  }
  const names = (clusters.data ?? []).map(({ name }) => name);
  const part = { document: draft, problems: check.problems, onChange };
  return (
    <Stack>
      <OwnersPanel {...part} clusters={names} guaranteed={check.guaranteed} />
      <PinnedPanel {...part} clusters={names} />
      <TypesPanel {...part} models={(models.data ?? []).map(({ name }) => name)} />
      <HardwarePanel {...part} />
    </Stack>
  );
}

interface TextProps {
  draft: unknown;
  /** Null while the form leads. */
  text: string | null;
  syntax: Problem;
  problems: readonly FieldProblem[];
  onWrite: (text: string) => void;
}

function Text({ draft, text, syntax, problems, onWrite }: TextProps) {
  const shown = useMemo(() => text ?? writeCells(draft as CellDraft), [text, draft]);
  const marks = useMemo(() => {
    if (syntax) return [syntax];
    const lineOf = linesOf(shown);
    return problems.map((each) => ({
      line: lineOf(pathOf(draft, each.field)),
      message: `${each.field}: ${sentenceOf(each)}`,
    }));
  }, [syntax, shown, problems, draft]);
  return (
    <Panel flush>
      <YamlEditor value={shown} onChange={onWrite} problems={marks} label="Cells as YAML" />
    </Panel>
  );
}

interface InventoryButtonProps {
  document: CellDraft;
  onChange: (document: CellDraft) => void;
}

/** Takes types and hardware from the nodes that there are; asks before it replaces what virtual clusters own. */
function InventoryButton({ document, onChange }: InventoryButtonProps) {
  const say = useSay();
  const [proposed, setProposed] = useState<CellDraft | null>(null);
  const ownsSomething = Object.keys(document.virtual_clusters ?? {}).length > 0;
  const take = (next: CellDraft) => {
    onChange(next);
    setProposed(null);
    say("done", "Filled in from the inventory. Changes take effect when you apply them.");
  };
  const propose = useMutation({
    mutationFn: () => answerOf(api.POST("/cells/proposal")),
    onSuccess: ({ specification }) => (ownsSomething ? setProposed(specification) : take(specification)),
    onError: (error) => say("failed", error.message),
  });
  return (
    <>
      <Button icon={<ServerCog size={15} aria-hidden />} busy={propose.isPending} onClick={() => propose.mutate()}>
        From the inventory
      </Button>
      {proposed && (
        <Dialog
          open
          onClose={() => setProposed(null)}
          title="Take the inventory"
          description="Types and hardware are replaced by those of the present nodes. What should happen to the cells that virtual clusters own?"
        >
          <DialogActions>
            <Button onClick={() => take(proposed)}>Propose them again</Button>
            <Button look="primary" onClick={() => take(withHardwareOf(document, proposed))}>
              Keep them
            </Button>
          </DialogActions>
        </Dialog>
      )}
    </>
  );
}
