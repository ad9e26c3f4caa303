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
  const text = await new Response(unpacked).text();
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.hidden = false;
  addComparison(JSON.parse(text));
}

// An element with texts and elements in it: what a file holds never becomes markup.
function made(tag, ...inside) {
  const element = document.createElement(tag);
  element.append(...inside.filter((each) => each !== null));
  return element;
}

const place = ({ location }) => (location ? `${location.file.split(/[/\\]/).pop()}:${location.line}` : "");

function speedOf(report) {
  const ratio = report.measurements?.find((each) => each.speedup)?.speedup.ratio;
  return ratio ? `${ratio.value.toFixed(2)}x` : "–";
}

// Rows of the table: what, and how a report says it.
const COUNTED = [
  ["graph breaks", (report) => report.graph_breaks.length],
  ["recompiles", (report) => report.recompiles.length],
  ["graphs", (report) => report.graphs.length],
  ["compile time", (report) => `${report.compilations.reduce((sum, { seconds }) => sum + (seconds?.total ?? 0), 0).toFixed(1)} s`],
  ["speedup vs eager", speedOf],
];

function findingsOnlyIn(one, other, title) {
  // The fingerprint stays when lines move; reports of before have none.
  const key = (finding) => finding.fingerprint || `${finding.title} ${place(finding)}`;
  const known = new Set(other.findings.map(key));
  const found = one.findings.filter((each) => !known.has(key(each)));
  const words = (title) => title.split("`").map((part, at) => (at % 2 ? made("code", part) : part));
  const rows = found.map((each) => made("li", ...words(each.title), " ", made("code", place(each))));
  return [made("h3", `${title} (${found.length})`), found.length ? made("ul", ...rows) : made("p", "None.")];
}

// Another report's JSON, dropped or chosen, beside this one. Nothing leaves the page.
function addComparison(own) {
  const section = document.getElementById("compared");
  const input = document.getElementById("compare-file");

  function show(name, text) {
    let other = null;
    try {
      other = JSON.parse(text);
    } catch {
      // Told below.
    }
    const lists = ["graph_breaks", "recompiles", "graphs", "compilations", "findings"];
    const isReport = other?.schema_version && lists.every((list) => Array.isArray(other[list]));
    if (!isReport) {
      section.replaceChildren(made("p", `${name} is no report: dynalyze writes one with --json FILE.`));
    } else {
      const before = other.created < own.created;
      const sides = before ? [other, own] : [own, other];
      const names = before ? [name, "this report"] : ["this report", name];
      const head = ["", ...names].map((text) => Object.assign(made("th", text), { scope: "col" }));
      const body = COUNTED.map(([what, of]) =>
        made("tr", Object.assign(made("th", what), { scope: "row" }), ...sides.map((side) => made("td", String(of(side))))),
      );
      const heading = Object.assign(made("h2", `Compared with ${name}`), { id: "compared-heading" });
      section.replaceChildren(
        heading,
        Object.assign(made("table", made("thead", made("tr", ...head)), made("tbody", ...body)), { className: "rows" }),
        ...findingsOnlyIn(sides[0], sides[1], `Only in ${names[0]}`),
        ...findingsOnlyIn(sides[1], sides[0], `Only in ${names[1]}`),
      );
    }
    section.hidden = false;
    section.focus();
    section.scrollIntoView();
  }

  async function read(files) {
    if (files.length) show(files[0].name, await files[0].text());
  }

  input.addEventListener("change", () => read(input.files));
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    read(event.dataTransfer.files);
  });
  input.closest("p").hidden = false;
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
