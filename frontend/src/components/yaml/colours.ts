/** Colours for YAML, line by line: enough for a job's specification, and far smaller than a grammar. */

import {
  Decoration,
  MatchDecorator,
  ViewPlugin,
  type DecorationSet,
  type EditorView,
  type ViewUpdate,
} from "@codemirror/view";

// In the order in which they are tried: what a comment or a quoted text contains is nothing else.
const PARTS =
  /(?<comment>(?:^|\s)#.*$)|(?<text>"(?:[^"\\]|\\.)*"|'[^']*')|(?<key>[\w.*-]+(?=:(?:\s|$)))|(?<number>(?<![\w.-])\d[\d.]*\w*\b)/g;

const marks = {
  comment: Decoration.mark({ class: "yaml-comment" }),
  key: Decoration.mark({ class: "yaml-key" }),
  number: Decoration.mark({ class: "yaml-number" }),
};

const matcher = new MatchDecorator({
  regexp: PARTS,
  decorate: (add, from, to, match) => {
    for (const [kind, mark] of Object.entries(marks)) if (match.groups?.[kind]) add(from, to, mark);
  },
});

export const yamlColours = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;

    constructor(view: EditorView) {
      this.decorations = matcher.createDeco(view);
    }

    update(update: ViewUpdate): void {
      this.decorations = matcher.updateDeco(update, this.decorations);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);
