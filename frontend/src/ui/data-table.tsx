/**
 * The one table of the dashboard: columns are declared, TanStack Table keeps rows and sorting.
 *
 * It has one answer for each state of a list: bars while it loads, the refusal and a way to try again, what to
 * do when there is nothing, and a button for the next page. A list of which only some pages are loaded must not
 * declare `sortBy`: sorted by a part of it, the order would be wrong. Its columns name the `order` that the server
 * gives it instead.
 */

import {
  createSortedRowModel,
  rowSortingFeature,
  tableFeatures,
  useTable,
  type ColumnDef,
  type Row as TableRow,
  type RowData,
  type SortDirection,
} from "@tanstack/react-table";
import { ArrowDown, ArrowUp } from "lucide-react";
import { Fragment, type HTMLAttributes, type ReactNode, useState } from "react";

import { ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { pressed } from "@/ui/keys";
import { numeric, TableFrame } from "@/ui/layout";
import { ShowMore, type Pages } from "@/ui/show-more";
import styles from "@/ui/data-table.module.css";

type Sortable = string | number | null | undefined;

type Attributes = Pick<HTMLAttributes<HTMLElement>, "title" | "className"> & Record<`data-${string}`, unknown>;

export interface Column<Row> {
  header: ReactNode;
  /** Tells the columns apart; needed only where `header` is not a text of its own. */
  id?: string;
  /** What the cell shows. It is called as a function: hooks belong into a component that it returns. */
  cell: (row: Row, index: number) => ReactNode;
  /** The header is read out, not shown: for a column of buttons. */
  isHeaderHidden?: boolean;
  headerTitle?: string;
  headerClassName?: string | undefined;
  /** The cell names its row for screen readers. */
  isRowHeader?: boolean;
  /** Figures, aligned right under their header. */
  isNumeric?: boolean;
  className?: string | undefined;
  attributes?: (row: Row) => Attributes;
  /** Lets people sort by this value; rows without one come last. Only where all rows are loaded. */
  sortBy?: (row: Row) => Sortable;
  /** What the server calls the order by this column; "-" before it turns it round. */
  order?: string;
  /** What the rows at the table's foot show, from the top. */
  footer?: readonly ReactNode[];
}

/** Rows of which one can be chosen, to be shown beside the table. */
export interface RowChoice<Row> {
  /** The key of the row that is chosen. */
  chosen: string | number | undefined;
  /** `isEntered`: by Enter, so that the focus goes to what is shown. */
  onChoose: (row: Row, isEntered: boolean) => void;
}

/** What is asked of the server: a query of TanStack Query, or anything of its shape. */
interface Query extends Partial<Pages> {
  isPending: boolean;
  isError: boolean;
  error: unknown;
  refetch: () => unknown;
}

export interface DataTableProps<Row> {
  /** The table's caption, which screen readers announce. */
  label: string;
  rows: readonly Row[] | undefined;
  /** Identifies a row while others come and go. */
  rowKey: (row: Row, index: number) => string | number;
  /** Columns may be left out by a condition. */
  columns: readonly (Column<Row> | false | undefined)[];
  rowAttributes?: (row: Row) => Attributes;
  /** What stands below a row over the whole width while it is unfolded. */
  below?: (row: Row) => ReactNode;
  /** The order that the server was asked for, among those of the columns. */
  order?: { value: string | undefined; onChange: (value: string | undefined) => void };
  /** Lets people choose a row: by a click beside its links and buttons, or by Enter and the arrow keys on the row. */
  choice?: RowChoice<Row> | undefined;
  /** Where the rows come from; left out where they are there already. */
  query?: Query;
  /** Takes the table's place where there are no rows. */
  empty?: ReactNode;
  /** The most rows that are drawn: the first ones in the order that was chosen. */
  limit?: number;
  /** Words of the button that loads the next page. */
  more?: string;
  /** Bars shown while the first rows are loaded. */
  skeletonLines?: number;
}

export function DataTable<Row extends RowData>(props: DataTableProps<Row>) {
  const { rows, query, empty, more, skeletonLines = 4 } = props;
  const hasRows = (rows?.length ?? 0) > 0;
  const isLoaded = query ? !query.isPending && !query.isError : true;
  return (
    <>
      {query?.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query?.isPending && <SkeletonLines count={skeletonLines} />}
      {isLoaded && !hasRows && empty}
      {hasRows && <Filled {...props} />}
      {query && hasPages(query) && <ShowMore query={query}>{more}</ShowMore>}
    </>
  );
}

function hasPages(query: Query): query is Query & Pages {
  return query.fetchNextPage !== undefined;
}

const features = tableFeatures({ rowSortingFeature, sortedRowModel: createSortedRowModel() });
const collator = new Intl.Collator("en", { numeric: true });
const NO_ROWS: readonly never[] = [];

function Filled<Row extends RowData>(props: DataTableProps<Row>) {
  const { label, rows, rowKey, rowAttributes, below, columns, limit, order, choice } = props;
  const [focused, setFocused] = useState<string>();
  const shown = columns.filter((column) => column !== false && column !== undefined);
  const byId = new Map(shown.map((column) => [idOf(column), column]));
  const table = useTable({
    features,
    data: rows ?? NO_ROWS,
    columns: shown.map(definitionOf),
    getRowId: (row, index) => String(rowKey(row, index)),
    enableMultiSort: false,
  });
  const drawn = table.getRowModel().rows.slice(0, limit);
  // One row of the table is reached by the tab key, the others by the arrow keys.
  const ids = drawn.map(({ id }) => id);
  const tabStop = [focused, String(choice?.chosen)].find((id) => id !== undefined && ids.includes(id)) ?? ids[0];
  const footers = Math.max(0, ...shown.map(({ footer = [] }) => footer.length));
  return (
    <TableFrame label={label}>
      <thead>
        {table.getHeaderGroups().map((group) => (
          <tr key={group.id}>
            {group.headers.map(({ id, column }) => {
              const declared = byId.get(column.id);
              return (
                declared && (
                  <HeaderCell
                    key={id}
                    column={declared}
                    {...(order && declared.order !== undefined
                      ? byServer(declared.order, order)
                      : {
                          sorted: column.getIsSorted(),
                          onSort: column.getCanSort() ? () => column.toggleSorting() : undefined,
                        })}
                  />
                )
              );
            })}
          </tr>
        ))}
      </thead>
      <tbody>
        {drawn.map((row) => {
          const unfolded = below?.(row.original);
          return (
            <Fragment key={row.id}>
              <tr
                {...rowAttributes?.(row.original)}
                {...(choice && {
                  ...chosenBy(choice, row.original, row.id),
                  tabIndex: row.id === tabStop ? 0 : -1,
                  onFocus: () => setFocused(row.id),
                })}
              >
                {row.getAllCells().map(({ id, column }) => {
                  const declared = byId.get(column.id);
                  return (
                    declared && (
                      <Cell key={id} column={declared} attributes={declared.attributes?.(row.original)}>
                        {declared.cell(row.original, row.index)}
                      </Cell>
                    )
                  );
                })}
              </tr>
              {unfolded && (
                <tr>
                  <td colSpan={shown.length}>{unfolded}</td>
                </tr>
              )}
            </Fragment>
          );
        })}
      </tbody>
      {footers > 0 && (
        <tfoot>
          {Array.from({ length: footers }, (_, line) => (
            <tr key={line}>
              {shown.map((column) => (
                <Cell key={idOf(column)} column={column}>
                  {column.footer?.[line]}
                </Cell>
              ))}
            </tr>
          ))}
        </tfoot>
      )}
    </TableFrame>
  );
}

/** Where a click or a key means something else than the row. */
const OWN_USE = "a, button, input, select, textarea, label, summary";

function chosenBy<Row>(
  { chosen, onChoose }: RowChoice<Row>,
  row: Row,
  id: string,
): HTMLAttributes<HTMLTableRowElement> & Record<`data-${string}`, string> {
  const isChosen = String(chosen) === id;
  return {
    className: styles.choosable,
    "data-row": id,
    "aria-current": isChosen || undefined,
    onClick: ({ target }) => {
      const isOwnUse = target instanceof Element && target.closest(OWN_USE) !== null;
      // Text that was marked to be copied is no choice.
      if (!isOwnUse && !window.getSelection()?.toString()) onChoose(row, false);
    },
    onKeyDown: (event) => {
      const { target, currentTarget } = event;
      if (target !== currentTarget) return;
      const key = pressed("list", event);
      if (key === "open") {
        event.preventDefault();
        onChoose(row, true);
      } else if (key) {
        event.preventDefault();
        const rows = [...(currentTarget.parentElement?.querySelectorAll<HTMLElement>(":scope > [data-row]") ?? [])];
        const next = rows[rows.indexOf(currentTarget) + (key === "next" ? 1 : -1)];
        next?.focus();
        // While a row is shown beside the table, that follows.
        if (chosen !== undefined) next?.click();
      }
    },
  };
}

function idOf({ id, header }: Pick<Column<never>, "id" | "header">): string {
  return id ?? (typeof header === "string" ? header : "");
}

function definitionOf<Row extends RowData>(column: Column<Row>): ColumnDef<typeof features, Row> {
  const { sortBy } = column;
  return {
    id: idOf(column),
    accessorFn: (row) => sortBy?.(row) ?? undefined,
    enableSorting: sortBy !== undefined,
    sortFn: compareRows,
    sortUndefined: "last",
  };
}

/** As a person would: node-2 before node-10. */
function compareRows<Row extends RowData>(
  a: TableRow<typeof features, Row>,
  b: TableRow<typeof features, Row>,
  column: string,
): number {
  const [left, right] = [a.getValue(column), b.getValue(column)];
  if (typeof left === "number" && typeof right === "number") return left - right;
  return collator.compare(String(left), String(right));
}

/** A column's header first asks for the largest or latest, then for the smallest, then for the usual order. */
function byServer(
  name: string,
  { value, onChange }: NonNullable<DataTableProps<never>["order"]>,
): Pick<HeaderCellProps, "sorted" | "onSort"> {
  if (value === `-${name}`) return { sorted: "desc", onSort: () => onChange(name) };
  if (value === name) return { sorted: "asc", onSort: () => onChange(undefined) };
  return { sorted: false, onSort: () => onChange(`-${name}`) };
}

interface HeaderCellProps {
  column: Omit<Column<never>, "cell">;
  sorted: false | SortDirection;
  onSort: (() => void) | undefined;
}

function HeaderCell({ column, sorted, onSort }: HeaderCellProps) {
  const text = column.isHeaderHidden ? <span className="visually-hidden">{column.header}</span> : column.header;
  const Arrow = sorted === "desc" ? ArrowDown : ArrowUp;
  return (
    <th
      scope="col"
      className={classes(column.isNumeric && numeric, column.headerClassName)}
      title={column.headerTitle}
      aria-sort={sorted ? (sorted === "asc" ? "ascending" : "descending") : undefined}
    >
      {onSort ? (
        <button type="button" className={classes(styles.sort, column.isNumeric && styles.sortNumeric)} onClick={onSort}>
          {text}
          <Arrow size={12} aria-hidden data-sorted={sorted || undefined} />
        </button>
      ) : (
        text
      )}
    </th>
  );
}

interface CellProps {
  column: Omit<Column<never>, "cell">;
  attributes?: Attributes | undefined;
  children: ReactNode;
}

function Cell({ column, attributes, children }: CellProps) {
  const { header, isHeaderHidden, isRowHeader, isNumeric, className } = column;
  const look = classes(isNumeric && numeric, className);
  return isRowHeader ? (
    <th scope="row" className={look} {...attributes}>
      {children}
    </th>
  ) : (
    // Styles show the header there where a narrow screen has no row of headers.
    <td className={look} data-label={isHeaderHidden || typeof header !== "string" ? undefined : header} {...attributes}>
      {children}
    </td>
  );
}

function classes(...names: (string | false | undefined)[]): string | undefined {
  return names.filter(Boolean).join(" ") || undefined;
}
