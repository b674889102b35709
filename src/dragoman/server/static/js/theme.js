"use strict";
// Runs before anything is drawn: the light or dark that was chosen on an earlier visit. Without a choice the system's.
try {
  const chosen = localStorage.getItem("dragoman.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing: the system's choice holds.
}
