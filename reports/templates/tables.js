
// Tables that sort by a click on the head of a column.

function addSorting(table) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

  function value(row, column, numeric) {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent.trim();
    if (!numeric) return text;
    return text === "" ? NaN : Number(text.replaceAll(",", ""));
  }

  function compare(numeric, sign) {
    if (!numeric) return (one, other) => sign * collator.compare(one.value, other.value);
    // What has no number stands last in either direction.
    return (one, other) =>
      Number.isNaN(one.value) || Number.isNaN(other.value)
        ? Number.isNaN(one.value) - Number.isNaN(other.value)
        : sign * (one.value - other.value);
  }

  function sortBy(column) {
    const head = heads[column];
    const numeric = "numeric" in head.dataset;
    const first = numeric && head.classList.contains("amount") ? "descending" : "ascending";
    const second = first === "ascending" ? "descending" : "ascending";
    const order = head.getAttribute("aria-sort") === first ? second : first;
    const rows = [...body.rows].map((row) => ({ row, value: value(row, column, numeric) }));
    rows.sort(compare(numeric, order === "ascending" ? 1 : -1));
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    body.append(...rows.map(({ row }) => row));
  }

  heads.forEach((head, column) => {
    if (head.classList.contains("bars")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sortBy(column));
    head.append(button);
  });
}

document.querySelectorAll("table.sortable").forEach(addSorting);
