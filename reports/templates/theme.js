// Runs before the first paint: a remembered choice of light or dark must not flash.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  try {
    const theme = localStorage.getItem("dynalyze-theme");
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  } catch {
    // A page opened from a file may have no storage.
  }
})();
