import { render, screen, within } from "@testing-library/react";
import { useState } from "react";
import { describe, expect, it, vi } from "vitest";

import { aUser } from "@/testing/user";
import { DataTable, type Column } from "@/ui/data-table";

interface Node {
  name: string;
  gpus: number | null;
}

const NODES: readonly Node[] = [
  { name: "node-10", gpus: 4 },
  { name: "node-2", gpus: null },
  { name: "node-1", gpus: 8 },
];
const COLUMNS: readonly Column<Node>[] = [
  { header: "Node", isRowHeader: true, cell: ({ name }) => name, sortBy: ({ name }) => name },
  { header: "GPUs", isNumeric: true, cell: ({ gpus }) => gpus ?? "–", sortBy: ({ gpus }) => gpus },
  { header: "Drain", isHeaderHidden: true, cell: ({ name }) => <button type="button">Drain {name}</button> },
];
const loaded = { isPending: false, isError: false, error: null, refetch: vi.fn() };

function names(): (string | null)[] {
  return screen.getAllByRole("rowheader").map(({ textContent }) => textContent);
}

describe("the table", () => {
  it("has a name, and a header for every column and row", () => {
    render(<DataTable label="Nodes" rows={NODES} rowKey={({ name }) => name} columns={COLUMNS} />);
    const table = screen.getByRole("table", { name: "Nodes" });
    expect(
      within(table)
        .getAllByRole("columnheader")
        .map(({ textContent }) => textContent),
    ).toEqual(["Node", "GPUs", "Drain"]);
    expect(names()).toEqual(["node-10", "node-2", "node-1"]);
  });

  it("tells each cell what its header is, for screens that show no row of headers", () => {
    render(<DataTable label="Nodes" rows={NODES} rowKey={({ name }) => name} columns={COLUMNS} />);
    const cells = within(screen.getByRole("table", { name: "Nodes" })).getAllByRole("cell");
    expect(cells.slice(0, 2).map((cell) => cell.getAttribute("data-label"))).toEqual(["GPUs", null]);
  });

  it("sorts by what a header's button says, those without a value last, and returns to the first order", async () => {
    const user = aUser();
    render(<DataTable label="Nodes" rows={NODES} rowKey={({ name }) => name} columns={COLUMNS} />);

    await user.click(screen.getByRole("button", { name: "Node" }));
    expect(names()).toEqual(["node-1", "node-2", "node-10"]);
    expect(screen.getByRole("columnheader", { name: "Node" }).getAttribute("aria-sort")).toBe("ascending");

    await user.click(screen.getByRole("button", { name: "GPUs" }));
    expect(names()).toEqual(["node-1", "node-10", "node-2"]);
    expect(screen.getByRole("columnheader", { name: "GPUs" }).getAttribute("aria-sort")).toBe("descending");
    expect(screen.getByRole("columnheader", { name: "Node" }).hasAttribute("aria-sort")).toBe(false);

    await user.click(screen.getByRole("button", { name: "GPUs" }));
    expect(names()).toEqual(["node-10", "node-1", "node-2"]);
    await user.click(screen.getByRole("button", { name: "GPUs" }));
    expect(names()).toEqual(["node-10", "node-2", "node-1"]);
  });

  it("can be sorted by the keyboard alone", async () => {
    const user = aUser();
    render(<DataTable label="Nodes" rows={NODES} rowKey={({ name }) => name} columns={COLUMNS} />);
    await user.tab();
    expect(document.activeElement).toBe(screen.getByRole("region", { name: "Nodes" }));
    await user.tab();
    await user.keyboard("{Enter}");
    expect(names()).toEqual(["node-1", "node-2", "node-10"]);
  });

  it("draws the first rows of the chosen order where there are too many", async () => {
    const user = aUser();
    render(<DataTable label="Nodes" rows={NODES} rowKey={({ name }) => name} columns={COLUMNS} limit={2} />);
    expect(names()).toEqual(["node-10", "node-2"]);
    await user.click(screen.getByRole("button", { name: "Node" }));
    expect(names()).toEqual(["node-1", "node-2"]);
  });

  it("keeps what is typed into a cell while the page draws itself again", async () => {
    const user = aUser();
    function Editor() {
      const [rows, setRows] = useState([{ name: "rack" }]);
      return (
        <DataTable
          label="Racks"
          rows={rows}
          rowKey={(_, index) => index}
          columns={[
            {
              header: "Name",
              cell: ({ name }) => (
                <input aria-label="Name" value={name} onChange={(event) => setRows([{ name: event.target.value }])} />
              ),
            },
          ]}
        />
      );
    }
    render(<Editor />);
    await user.type(screen.getByRole("textbox", { name: "Name" }), "-north");
    expect(screen.getByRole<HTMLInputElement>("textbox", { name: "Name" }).value).toBe("rack-north");
  });
});

describe("the states of a list", () => {
  const props = { label: "Nodes", rowKey: ({ name }: Node) => name, columns: COLUMNS, empty: <p>No nodes yet</p> };

  it("shows that it loads, and nothing of a table", () => {
    render(<DataTable {...props} rows={undefined} query={{ ...loaded, isPending: true }} />);
    expect(screen.getByRole("status", { name: "Loading" })).toBeTruthy();
    expect(screen.queryByText("No nodes yet")).toBeNull();
    expect(screen.queryByRole("table")).toBeNull();
  });

  it("says what to do where there is nothing", () => {
    render(<DataTable {...props} rows={[]} query={loaded} />);
    expect(screen.getByText("No nodes yet")).toBeTruthy();
  });

  it("says what went wrong instead of that there is nothing, and tries again", async () => {
    const refetch = vi.fn();
    const error = new Error("The server does not answer.");
    render(<DataTable {...props} rows={undefined} query={{ ...loaded, isError: true, error, refetch }} />);
    expect(screen.getByRole("alert").textContent).toContain("The server does not answer.");
    expect(screen.queryByText("No nodes yet")).toBeNull();
    await aUser().click(screen.getByRole("button", { name: "Try again" }));
    expect(refetch).toHaveBeenCalledOnce();
  });

  it("does not offer to try again what a role may not do", () => {
    const error = Object.assign(new Error("This is for operators of the platform only."), { status: 403 });
    render(<DataTable {...props} rows={undefined} query={{ ...loaded, isError: true, error }} />);
    expect(screen.getByRole("alert").textContent).toBe("This is for operators of the platform only.");
    expect(screen.queryByRole("button")).toBeNull();
  });

  it("keeps the rows that are known when asking again failed", () => {
    render(<DataTable {...props} rows={NODES} query={{ ...loaded, isError: true, error: new Error("Gone.") }} />);
    expect(screen.getByRole("alert")).toBeTruthy();
    expect(names()).toHaveLength(3);
  });

  it("asks for the next page by its button", async () => {
    const fetchNextPage = vi.fn();
    const query = { ...loaded, hasNextPage: true, isFetchingNextPage: false, fetchNextPage };
    render(<DataTable {...props} rows={NODES} query={query} more="Show older nodes" />);
    await aUser().click(screen.getByRole("button", { name: "Show older nodes" }));
    expect(fetchNextPage).toHaveBeenCalledOnce();
  });
});
