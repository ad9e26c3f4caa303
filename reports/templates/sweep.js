
// The index of a sweep: a filter for its items, by words and by status.

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
  onKey("/", () => {
    input.focus({ preventScroll: true });
    // The table below is what one wants to see while typing.
    document.getElementById("items").scrollIntoView({ behavior: "instant" });
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

addItemFilter();
