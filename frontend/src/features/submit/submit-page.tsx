import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { explained } from "@/api/client";
import { jobQuery, tenantsQuery } from "@/api/queries";
import { useKept } from "@/components/kept-form";
import { mayActFor } from "@/components/roles";
import { useSession } from "@/components/session";
import { writeSpec } from "@/components/spec-text";
import { editYaml, linesOf, parseYaml, type Path } from "@/components/yaml/document";
import { SpecForm } from "@/features/submit/spec-form";
import { SubmitBar, useCheck } from "@/features/submit/submit-bar";
import styles from "@/features/submit/submit-page.module.css";
import { TEMPLATES } from "@/features/submit/templates";
import { Confirm } from "@/ui/confirm";
import { EmptyState, ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { Field, Select } from "@/ui/field";
import { PageLayout, Panel } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";

const FolderPanel = onDemand(
  async () => (await import("@/features/submit/folder/folder-panel")).FolderPanel,
  <SkeletonLines count={1} />,
);
const TenantTemplates = onDemand(async () => (await import("@/features/submit/tenant-templates")).TenantTemplates);
const YamlEditor = onDemand(
  async () => (await import("@/components/yaml/editor")).YamlEditor,
  <SkeletonLines count={12} />,
);

const route = getRouteApi("/submit");

export function SubmitPage() {
  const { clone } = route.useSearch();
  const source = useQuery({ ...jobQuery(clone ?? 0), enabled: clone !== undefined, staleTime: Infinity });
  if (clone === undefined)
    return (
      <SubmitView key="new" draft="new" initial={TEMPLATES[0].text} lead="Start from a template, or write your own." />
    );
  if (source.isError) {
    return (
      <PageLayout title="Submit a job">
        <ErrorNotice error={source.error} />
      </PageLayout>
    );
  }
  if (!source.data) {
    return (
      <PageLayout title="Submit a job">
        <SkeletonLines />
      </PageLayout>
    );
  }
  return (
    <SubmitView
      key={clone}
      draft={`copy of ${clone}`}
      initial={writeSpec(source.data.spec)}
      tenant={source.data.tenant}
      lead={`A copy of job ${clone}, ${source.data.name}.`}
    />
  );
}

interface SubmitViewProps {
  /** Names what is written, so that it is found again. */
  draft: string;
  initial: string;
  tenant?: string;
  lead: string;
}

function SubmitView({ draft, initial, tenant: givenTenant, lead }: SubmitViewProps) {
  const tenants = useOwnTenants();
  const [text, edit] = useKept(`specification ${draft}`, initial);
  const setText = (next: string) => edit(() => next);
  const [template, setTemplate] = useState<string | null>(null);
  const isOwn = text !== initial && TEMPLATES.every((each) => each.text !== text);
  const take = (next: string) => (isOwn ? setTemplate(next) : setText(next));
  const [chosenTenant, setTenant] = useState(givenTenant ?? "");
  const tenant = tenants.includes(chosenTenant) ? chosenTenant : (tenants[0] ?? "");
  const { data: spec, problem } = useMemo(() => parseYaml(text, "A job"), [text]);
  const check = useCheck(spec, tenant);
  const problems = useMemo(() => {
    if (problem) return [problem];
    const lineOf = linesOf(text);
    return check.fields.map((each) => ({
      line: lineOf(each.field.split(".")),
      message: `${each.field}: ${explained(each)}`,
    }));
  }, [problem, check.fields, text]);
  const problemOf = (field: string) => {
    const found = check.fields.find((each) => each.field === field);
    return found && explained(found);
  };
  if (tenants.length === 0) {
    return (
      <PageLayout title="Submit a job">
        <EmptyState title="You cannot submit jobs">
          Members of a tenant submit jobs. Ask a tenant&apos;s admin to make you a member.
        </EmptyState>
      </PageLayout>
    );
  }
  return (
    <PageLayout
      title="Submit a job"
      lead={lead}
      actions={tenants.length > 1 && <TenantChoice tenants={tenants} value={tenant} onChange={setTenant} />}
    >
      <ul className={styles.templates} aria-label="Templates">
        {TEMPLATES.map((template) => (
          <li key={template.id}>
            <button type="button" aria-pressed={text === template.text} onClick={() => take(template.text)}>
              <strong>{template.title}</strong>
              <span>{template.summary}</span>
            </button>
          </li>
        ))}
      </ul>
      <TenantTemplates key={tenant} tenant={tenant} spec={spec} onTake={take} />
      <div className={styles.columns}>
        <Panel title="Form">
          {spec ? (
            <>
              <FolderPanel
                tenant={tenant}
                archive={archiveOf(spec)}
                onArchive={(archive) => edit((now) => editYaml(now, ["code"], archive && { archive }))}
              />
              <SpecForm
                spec={spec}
                tenant={tenant}
                problemOf={problemOf}
                onEdit={(path: Path, value) => edit((now) => editYaml(now, path, value))}
              />
            </>
          ) : (
            <Notice tone="failed">
              The form returns when the YAML is valid again. {problem && `Line ${problem.line}: ${problem.message}`}
            </Notice>
          )}
        </Panel>
        <Panel title="YAML" flush className={styles.yaml}>
          <YamlEditor value={text} onChange={setText} problems={problems} />
        </Panel>
      </div>
      <SubmitBar spec={spec} tenant={tenant} check={check} problems={problems} onSubmitted={() => setText(initial)} />
      <Confirm
        open={template !== null}
        onClose={() => setTemplate(null)}
        title="Take the template instead?"
        description="It replaces your text."
        action="Replace"
        onConfirm={() => {
          if (template) setText(template);
          setTemplate(null);
        }}
      />
    </PageLayout>
  );
}

/** The archive that a specification names. */
function archiveOf({ code }: Record<string, unknown>): string | undefined {
  const archive = typeof code === "object" && code !== null && "archive" in code ? code.archive : undefined;
  return typeof archive === "string" && archive !== "" ? archive : undefined;
}

/** Tenants for which the person may submit: an operator for all. */
function useOwnTenants(): string[] {
  const me = useSession();
  const all = useQuery({ ...tenantsQuery, enabled: me.is_operator });
  const names = [...me.tenants.map(({ name }) => name), ...(all.data ?? []).map(({ name }) => name)];
  return [...new Set(names)].filter((name) => mayActFor(me, name));
}

function TenantChoice({
  tenants,
  value,
  onChange,
}: {
  tenants: readonly string[];
  value: string;
  onChange: (tenant: string) => void;
}) {
  return (
    <Field label="For tenant">
      {(attributes) => (
        <Select
          {...attributes}
          value={value}
          onChange={(event) => onChange(event.target.value)}
          options={tenants.map((name) => ({ value: name, label: name }))}
        />
      )}
    </Field>
  );
}
