// Runs before the first paint, so that a chosen appearance never flashes.
(() => {
  const chosen = localStorage.getItem("wideplan-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
