
// The index of a sweep: tables that sort, and a filter for its items.

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

function addItemFilter() {
  const input = document.getElementById("items-filter");
  if (!input) return;
  const status = document.getElementById("items-status");
  const none = document.getElementById("items-none");
  const chips = [...document.querySelectorAll(".chip")];
  const rows = [...document.getElementById("items-table").tBodies[0].rows].map((row) => ({
    row,
    text: row.textContent.toLowerCase(),
  }));

  function apply() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const pressed = chips.filter((chip) => chip.getAttribute("aria-pressed") === "true");
    const wanted = new Set(pressed.map((chip) => chip.dataset.status));
    let shown = 0;
    for (const { row, text } of rows) {
      const fits = !wanted.size || wanted.has(row.dataset.status);
      row.hidden = !(fits && words.every((word) => text.includes(word)));
      if (!row.hidden) shown += 1;
    }
    none.hidden = shown > 0;
    const filtered = words.length || wanted.size;
    status.textContent = filtered ? `${shown} of ${rows.length} shown` : "";
  }

  function clear() {
    input.value = "";
    for (const chip of chips) chip.setAttribute("aria-pressed", "false");
    apply();
  }

  input.addEventListener("input", apply);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    clear();
    input.blur();
  });
  for (const chip of chips) {
    chip.addEventListener("click", () => {
      chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
      apply();
    });
  }
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || typing) return;
    event.preventDefault();
    input.focus();
  });
  // A link to an item that the filter hides must still lead there.
  addEventListener("hashchange", () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target || !target.closest("[hidden]")) return;
    clear();
    target.scrollIntoView();
  });
  document.getElementById("items-controls").hidden = false;
}

document.querySelectorAll("table.sortable").forEach(addSorting);
addItemFilter();
