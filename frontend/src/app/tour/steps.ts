/** What the tour shows to whom, and where on the page that is. */

import type { Me } from "@/api/schema";
import { mayActAnywhere } from "@/components/roles";

export interface Step {
  title: string;
  text: string;
  /** The element that the step points at; null while it is not there. */
  find: () => Element | null;
  /** Whether that is a part of the navigation, which a small screen has behind one button. */
  isInNavigation?: true;
}

/** Return the steps for a user, at most six; `hasSide`: whether the navigation stands beside the page. */
export function stepsFor(me: Me, hasSide: boolean): Step[] {
  const isAdmin = !me.is_operator && me.tenants.some(({ role }) => role === "admin");
  const steps = [
    ...(me.is_operator ? [NODES, VIRTUAL_CLUSTERS] : []),
    ...(mayActAnywhere(me) ? [SUBMIT] : []),
    ...(me.is_operator ? [] : [OWN_GPUS]),
    QUEUE,
    ...(isAdmin ? [TENANTS] : []),
    // The menu of a small screen has none.
    ...(hasSide ? [PALETTE] : []),
    DOCS,
  ];
  return hasSide ? steps : steps.map(throughMenu);
}

function throughMenu(step: Step): Step {
  return step.isInNavigation ? { ...step, text: `${step.text} This menu leads there.` } : step;
}

const NODES: Step = {
  title: "Add nodes",
  text: "The Nodes page gives you the command that adds a node. There you also cordon and drain nodes, and see their GPUs.",
  find: () => inNavigation('nav a[href="/nodes"]'),
  isInNavigation: true,
};

const VIRTUAL_CLUSTERS: Step = {
  title: "Share the GPUs out",
  text: "A virtual cluster guarantees GPUs to tenants and has a scheduling policy of its own. You make and change it on this page.",
  find: () => inNavigation('nav a[href="/virtual-clusters"]'),
  isInNavigation: true,
};

const SUBMIT: Step = {
  title: "Submit a job",
  text: "Describe the job in a form or as YAML: its command, its GPUs and its tenant. The page checks it while you write.",
  find: () => inNavigation('aside a[href="/submit"]'),
  isInNavigation: true,
};

const OWN_GPUS: Step = {
  title: "GPUs of your tenants",
  text: "These figures count the GPUs and jobs of your tenants. The figures of the whole cluster are in a group of their own.",
  find: () => sectionOf("Your tenants"),
};

const QUEUE: Step = {
  title: "Why a job waits",
  text: "Each waiting job states what it waits for, such as idle GPUs or quota. The page of the job lists every reason, with a hint.",
  find: () => sectionOf("Queue"),
};

const TENANTS: Step = {
  title: "Your tenant",
  text: "On the Tenants page you invite members, choose their roles, and set budgets and secrets.",
  find: () => inNavigation('nav a[href="/tenants"]'),
  isInNavigation: true,
};

const PALETTE: Step = {
  title: "Go anywhere",
  text: "Ctrl-K opens this list on any page. Some letters of a name find a page, a job, a node, a tenant, a user or a virtual cluster.",
  find: () => buttonOf("Go to"),
};

const DOCS: Step = {
  title: "Help and documentation",
  text: "The menu of help has the documentation of the page that you are on, the glossary, the keys, and this tour.",
  find: () => inNavigation('button[aria-label="Help"]'),
  isInNavigation: true,
};

function shown(selector: string): Element | null {
  return [...document.querySelectorAll(selector)].find((element) => element.checkVisibility()) ?? null;
}

function inNavigation(selector: string): Element | null {
  return shown(selector) ?? shown('header button[aria-label="Menu"]');
}

function buttonOf(text: string): Element | null {
  return [...document.querySelectorAll("aside button")].find(({ textContent }) => textContent.startsWith(text)) ?? null;
}

function sectionOf(heading: string): Element | null {
  const found = [...document.querySelectorAll("main h2")].find(({ textContent }) => textContent.startsWith(heading));
  return found?.closest("section") ?? null;
}
