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

function addFilter() {
  const input = document.getElementById("filter");
  if (!input) return;
  const status = document.getElementById("filter-status");
  const groups = [...document.querySelectorAll(".file-group")];
  const breaks = [...document.querySelectorAll(".break")].map((element) => ({
    element,
    text: element.textContent.toLowerCase(),
  }));

  function apply() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { element, text } of breaks) {
      element.hidden = !words.every((word) => text.includes(word));
      if (!element.hidden) shown += 1;
    }
    for (const group of groups) group.hidden = !group.querySelector(".break:not([hidden])");
    status.textContent = words.length ? `${shown} of ${breaks.length} shown` : "";
  }

  input.addEventListener("input", apply);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    input.value = "";
    apply();
    input.blur();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || typing) return;
    event.preventDefault();
    input.focus();
  });
  // A link to a break that the filter hides must still lead there.
  addEventListener("hashchange", () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target || !target.closest("[hidden]")) return;
    input.value = "";
    apply();
    target.scrollIntoView();
  });
  document.querySelector(".filter").hidden = false;
}

function addDownload() {
  const data = document.getElementById("report-json");
  const link = document.getElementById("download");
  if (!data || !link) return;
  const blob = new Blob([data.textContent], { type: "application/json" });
  link.href = URL.createObjectURL(blob);
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
addDownload();
openTarget();
addEventListener("hashchange", openTarget);
