/** What stands in a table, as it is read. */

import { within } from "@testing-library/react";

/** The texts of each row's cells, its header included; without the table's head. */
export function rowsOf(table: HTMLElement): string[][] {
  return within(table)
    .getAllByRole("row")
    .slice(1)
    .map((row) => [...row.children].map((cell) => cell.textContent.trim()));
}
