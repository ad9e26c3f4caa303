"use strict";

// Every function below only adds to a page that is complete without it.

function addThemeButton() {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const isDark = () =>
    root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
  const label = () => {
    button.textContent = isDark() ? "Light mode" : "Dark mode";
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("dynalyze-theme", root.dataset.theme);
    } catch {
      // Not remembered then.
    }
    label();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  label();
  button.hidden = false;
}

// What a search shows or hides as a whole; one that stands in another goes with it.
const ITEMS =
  ".card, .break, .fix, .graph, .answers, .rows tbody tr, .files > li, .lines tr[id], " +
  ".map-text > li, .glossary > div, #environment .facts > div";

// The notes and the caret below a line of code.
function followers(element) {
  const found = [];
  if (!element.matches(".lines tr")) return found;
  for (let next = element.nextElementSibling; next && !next.id; next = next.nextElementSibling) found.push(next);
  return found;
}

function searchable() {
  return [...document.querySelectorAll(ITEMS)]
    .filter((element) => !element.parentElement.closest(ITEMS))
    .map((element) => {
      const parts = [element, ...followers(element)];
      return { parts, text: parts.map((part) => part.textContent).join(" ").toLowerCase() };
    });
}

function addFilter() {
  const input = document.getElementById("filter");
  if (!input) return;
  const status = document.getElementById("filter-status");
  let items = null;
  let groups = null;

  // What hides as a whole once nothing in it is left, with its items.
  function grouped() {
    const all = document.querySelectorAll(".source-file, .fold, main > section");
    return [...all]
      .map((group) => ({ group, inside: items.filter(({ parts }) => group.contains(parts[0])) }))
      .filter(({ inside }) => inside.length);
  }

  function apply() {
    items ??= searchable();
    groups ??= grouped();
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { parts, text } of items) {
      const hidden = !words.every((word) => text.includes(word));
      for (const part of parts) part.hidden = hidden;
      if (!hidden) shown += 1;
    }
    for (const { group, inside } of groups) {
      group.hidden = words.length > 0 && inside.every(({ parts }) => parts[0].hidden);
      if (words.length && group.tagName === "DETAILS" && !group.hidden) group.open = true;
    }
    status.textContent = words.length ? `${shown} of ${items.length} shown` : "";
  }

  function clear() {
    input.value = "";
    apply();
  }

  input.addEventListener("input", apply);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    clear();
    input.blur();
  });
  onKey("/", () => {
    const folded = input.closest("details");
    if (folded) folded.open = true;
    input.focus();
  });
  // A link to what the search hides must still lead there.
  addEventListener("hashchange", () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target || !target.closest("[hidden]")) return;
    clear();
    target.scrollIntoView();
  });
  document.querySelector(".filter").hidden = false;
}

// Calls `action` for a key that is not typed into something.
function onKey(key, action) {
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key !== key || event.ctrlKey || event.metaKey || event.altKey || typing) return;
    event.preventDefault();
    action();
  });
}

// j and k go through the findings and facts, as far as they are shown.
function addSteps() {
  let at = null;
  const go = (by) => {
    const stops = [...document.querySelectorAll(".card, .fix, .break, .recompile, .graph")].filter((each) =>
      each.checkVisibility({ contentVisibilityAuto: true }) && !each.parentElement.closest(".card"),
    );
    if (!stops.length) return;
    const now = stops.indexOf(at);
    const below = stops.findIndex((each) => each.getBoundingClientRect().top > 1);
    const start = now >= 0 ? now + by : by > 0 ? Math.max(below, 0) : below - 1;
    at = stops[Math.min(Math.max(start, 0), stops.length - 1)];
    at.tabIndex = -1;
    at.focus({ preventScroll: true });
    at.scrollIntoView({ block: "start" });
  };
  onKey("j", () => go(1));
  onKey("k", () => go(-1));
}

function addHelp() {
  const button = document.getElementById("help");
  const dialog = document.getElementById("keys");
  if (!button || !dialog) return;
  const show = () => {
    if (!dialog.open) dialog.showModal();
  };
  button.addEventListener("click", show);
  onKey("?", show);
  button.hidden = false;
}

async function addDownload() {
  const data = document.getElementById("report-json");
  const link = document.getElementById("download");
  if (!data || !link || !("DecompressionStream" in window)) return;
  const packed = Uint8Array.from(atob(data.textContent), (character) => character.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const text = await new Response(unpacked).blob();
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.hidden = false;
}

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let element = target; element; element = element.parentElement) {
    if (element.tagName === "DETAILS") element.open = true;
  }
}

// Inside of a notebook the page has no address of its own: a link would lead to the notebook's.
function followLinksInFrame() {
  if (location.protocol !== "about:") return;
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!link || link.hasAttribute("download")) return;
    const href = link.getAttribute("href");
    if (href.startsWith("#")) {
      event.preventDefault();
      location.hash = href;
    } else {
      link.target = "_blank";
    }
  });
}

addThemeButton();
followLinksInFrame();
addFilter();
addSteps();
addHelp();
addDownload();
openTarget();
addEventListener("hashchange", openTarget);
