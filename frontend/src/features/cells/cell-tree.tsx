import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ChevronRight } from "lucide-react";
import { createContext, type CSSProperties, type KeyboardEvent, useContext, useMemo, useRef, useState } from "react";

import { cellTreeQuery } from "@/api/cell-queries";
import type { CellNode } from "@/api/schema";
import { CellBar, tellUse } from "@/components/cells/cell-use";
import { moment } from "@/components/format";
import { Tag } from "@/components/state-badge";
import styles from "@/features/cells/cells.module.css";
import { cellsOf, labelOf, moreText, moveFor, parentOf } from "@/features/cells/tree";
import { Button } from "@/ui/button";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { pressed } from "@/ui/keys";

/** So few siblings above the nodes are shown open from the start. */
const FEW = 4;

interface Tree {
  chain: string;
  /** The cell that the address in the bar asks for. */
  wanted: string | undefined;
  /** Cells that were opened or closed by hand. */
  toggled: ReadonlySet<string>;
  toggle: (address: string) => void;
  current: string | null;
  setCurrent: (address: string) => void;
}

const TreeContext = createContext<Tree | null>(null);

function useTree(): Tree {
  const tree = useContext(TreeContext);
  if (!tree) throw new Error("Cells are shown inside a tree.");
  return tree;
}

/** Cells inside of cells; children are fetched as they are opened. `at` shows the surroundings of one cell. */
export function CellTree({ chain, at }: { chain: string; at: string | undefined }) {
  const root = useRef<HTMLUListElement>(null);
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const [current, setCurrent] = useState<string | null>(null);
  const tree = useMemo<Tree>(
    () => ({
      chain,
      wanted: at,
      toggled,
      toggle: (address) =>
        setToggled((known) => {
          const next = new Set(known);
          if (!next.delete(address)) next.add(address);
          return next;
        }),
      current,
      setCurrent,
    }),
    [chain, at, toggled, current],
  );
  const onKeyDown = (event: KeyboardEvent) => {
    const items = [...(root.current?.querySelectorAll<HTMLElement>("[role=treeitem]") ?? [])];
    const index = items.findIndex((item) => item === event.target);
    const item = items[index];
    if (!item) return;
    const key = pressed("tree", event);
    if (key === "open") {
      event.preventDefault();
      const inside = (what: string) => item.querySelector<HTMLElement>(`:scope > [data-row] ${what}`);
      (inside("a") ?? inside("button"))?.click();
      return;
    }
    const move = moveFor(key, items.map(itemOf), index);
    if (!move) return;
    event.preventDefault();
    if ("focus" in move) items[move.focus]?.focus();
    else tree.toggle(item.dataset.address ?? "");
  };
  return (
    <TreeContext value={tree}>
      <ul ref={root} role="tree" aria-label={`Cells of ${chain}`} className={styles.tree} onKeyDown={onKeyDown}>
        <Branch at={at === undefined ? undefined : parentOf(at)} level={1} siblings={undefined} />
      </ul>
    </TreeContext>
  );
}

function itemOf(item: HTMLElement) {
  const expanded = item.getAttribute("aria-expanded");
  return { level: Number(item.getAttribute("aria-level")), open: expanded === null ? null : expanded === "true" };
}

interface BranchProps {
  at: string | undefined;
  level: number;
  /** How many children the parent has, where there is one. */
  siblings: number | undefined;
}

function Branch({ at, level, siblings }: BranchProps) {
  const { chain } = useTree();
  const query = useInfiniteQuery(cellTreeQuery(chain, at));
  const cells = useMemo(() => cellsOf(query.data?.pages), [query.data]);
  if (query.isError && cells.length === 0) {
    return (
      <li role="none">
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      </li>
    );
  }
  if (query.isPending) {
    return (
      <li role="none">
        <SkeletonLines count={Math.min(4, siblings ?? 3)} />
      </li>
    );
  }
  if (cells.length === 0) {
    return (
      <li role="none">
        <EmptyState title="No cells here" />
      </li>
    );
  }
  return (
    <>
      {cells.map((cell, index) => (
        <Item
          key={cell.address}
          cell={cell}
          level={level}
          few={cells.length <= FEW}
          first={level === 1 && index === 0}
        />
      ))}
      {query.hasNextPage && (
        <li role="none" className={styles.more}>
          <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
            {moreText(cells.length, siblings)}
          </Button>
        </li>
      )}
    </>
  );
}

interface ItemProps {
  cell: CellNode;
  level: number;
  /** It has few siblings. */
  few: boolean;
  /** Where the tab key enters the tree before any cell was chosen. */
  first: boolean;
}

function Item({ cell, level, few, first }: ItemProps) {
  const tree = useTree();
  const hasChildren = cell.children > 0;
  const isWanted = tree.wanted === cell.address;
  const opensItself = isWanted || (few && !cell.level_is_node && cell.node === "");
  const isOpen = hasChildren && tree.toggled.has(cell.address) !== opensItself;
  return (
    <li
      role="treeitem"
      aria-level={level}
      aria-label={sentence(cell)}
      aria-current={isWanted || undefined}
      data-address={cell.address}
      tabIndex={tree.current === cell.address || (tree.current === null && first) ? 0 : -1}
      {...(hasChildren ? { "aria-expanded": isOpen } : {})}
      onFocus={(event) => event.target === event.currentTarget && tree.setCurrent(cell.address)}
    >
      <Row cell={cell} level={level} isOpen={isOpen} onToggle={() => tree.toggle(cell.address)} />
      {isOpen && (
        <ul role="group">
          <Branch at={cell.address} level={level + 1} siblings={cell.children} />
        </ul>
      )}
    </li>
  );
}

interface RowProps {
  cell: CellNode;
  level: number;
  isOpen: boolean;
  onToggle: () => void;
}

/** Keys work on the item; what is inside it is for the pointer. */
function Row({ cell, level, isOpen, onToggle }: RowProps) {
  return (
    <div data-row className={styles.row} style={{ "--depth": level - 1 } as CSSProperties}>
      <span className={styles.name}>
        {cell.children > 0 ? (
          <button
            type="button"
            tabIndex={-1}
            aria-hidden
            className={styles.chevron}
            data-open={isOpen || undefined}
            onClick={onToggle}
          >
            <ChevronRight size={15} />
          </button>
        ) : (
          <span className={styles.chevron} />
        )}
        {cell.level_is_node ? (
          <Link to="/nodes/$name" params={{ name: cell.node }} tabIndex={-1}>
            {labelOf(cell)}
          </Link>
        ) : (
          <span>{labelOf(cell)}</span>
        )}
        <small>{typeBeside(cell)}</small>
      </span>
      <CellBar use={cell} />
      <span className={styles.figures}>{tellUse(cell)}</span>
      <span className={styles.owner}>
        {cell.virtual_cluster && <Tag title="The virtual cluster that has this cell now">{cell.virtual_cluster}</Tag>}
        {cell.on_loan && <Tag title={loanText(cell.on_loan)}>of {cell.on_loan.from}</Tag>}
        {cell.pinned && <Tag title="Pinned: this cell always has the same hardware">pinned {cell.pinned}</Tag>}
      </span>
    </div>
  );
}

function sentence(cell: CellNode): string {
  const owner = cell.virtual_cluster ? `, of ${cell.virtual_cluster}` : "";
  const pinned = cell.pinned ? `, pinned as ${cell.pinned}` : "";
  const loan = cell.on_loan ? `, ${loanText(cell.on_loan)}` : "";
  const name = [labelOf(cell), typeBeside(cell)].filter(Boolean).join(", ");
  return `${name}: ${tellUse(cell)}${owner}${loan}${pinned}`;
}

function loanText({ from, until }: NonNullable<CellNode["on_loan"]>): string {
  return `on loan from ${from} until ${moment(until)}`;
}

/** Its type, where the label does not tell it. */
function typeBeside(cell: CellNode): string {
  return cell.gpu !== null || labelOf(cell).startsWith(cell.type) ? "" : cell.type;
}
