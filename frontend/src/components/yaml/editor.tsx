import { history, historyKeymap, insertNewlineKeepIndent } from "@codemirror/commands";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
  MatchDecorator,
  ViewPlugin,
  type ViewUpdate,
} from "@codemirror/view";
import { useEffect, useRef } from "react";

import { KEYS } from "@/ui/keys";
import styles from "@/components/yaml/editor.module.css";

export interface LineProblem {
  line: number;
  message: string;
}

interface YamlEditorProps {
  value: string;
  onChange: (value: string) => void;
  problems: readonly LineProblem[];
  /** Read to those who do not see it. */
  label?: string;
}

// Colours for YAML, line by line: enough for a job's specification, and far smaller than a grammar.

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

const yamlColours = ViewPlugin.fromClass(
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

// Tab is left to move the focus, so that the keyboard is not trapped; Enter keeps the indentation.
const extensions = [
  lineNumbers(),
  lintGutter(),
  history(),
  drawSelection(),
  highlightActiveLine(),
  EditorState.tabSize.of(2),
  yamlColours,
  EditorView.lineWrapping,
  keymap.of([{ key: KEYS.editor.newLine.keys[0], run: insertNewlineKeepIndent }, ...historyKeymap]),
];

/** A document as text, with each problem at its line. */
export function YamlEditor({ value, onChange, problems, label = "Specification as YAML" }: YamlEditorProps) {
  const frame = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorView | null>(null);
  const report = useRef(onChange);
  const initial = useRef(value);

  useEffect(() => {
    report.current = onChange;
  }, [onChange]);

  useEffect(() => {
    if (!frame.current) return;
    const listener = EditorView.updateListener.of((update) => {
      if (update.docChanged) report.current(update.state.doc.toString());
    });
    const attributes = EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false" });
    const view = new EditorView({
      doc: initial.current,
      extensions: [...extensions, attributes, listener],
      parent: frame.current,
    });
    editor.current = view;
    return () => view.destroy();
  }, [label]);

  useEffect(() => {
    const view = editor.current;
    if (!view || view.state.doc.toString() === value) return;
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } });
  }, [value]);

  useEffect(() => {
    const view = editor.current;
    if (!view) return;
    const diagnostics = problems.map(({ line, message }): Diagnostic => {
      const { from, to } = view.state.doc.line(Math.min(Math.max(1, line), view.state.doc.lines));
      return { from, to, message, severity: "error" };
    });
    view.dispatch(setDiagnostics(view.state, diagnostics));
  }, [problems, value]);

  return <div ref={frame} className={styles.editor} />;
}

// In the order in which they are tried: what a comment or a quoted text contains is nothing else.
