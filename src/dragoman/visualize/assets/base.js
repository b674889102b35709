"use strict";
// What all pages use. Everything from the data enters the page as text, never as markup.
const page = (() => {
  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  }

  // A token by itself, in its own writing direction; the sign for a space before it is faint. lang: of its language.
  const token = (text, lang) => text.length > 1 && text.startsWith("▁")
    ? element("bdi", { dir: "auto", lang }, element("span", { class: "faint" }, "▁"), text.slice(1))
    : element("bdi", { dir: "auto", lang }, text);

  // The writing direction of a text: that of its first letter.
  const FROM_THE_RIGHT = /^\P{L}*[\p{sc=Adlm}\p{sc=Arab}\p{sc=Hebr}\p{sc=Mand}\p{sc=Nkoo}\p{sc=Rohg}\p{sc=Samr}\p{sc=Syrc}\p{sc=Thaa}]/u;
  const direction = (text) => (FROM_THE_RIGHT.test(text) ? "rtl" : "ltr");

  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };

  function themeButton(changed) {
    const label = () => (isDark() ? "Light" : "Dark");
    const button = element("button", { type: "button", onclick: () => {
      document.documentElement.dataset.theme = isDark() ? "light" : "dark";
      button.textContent = label();
      changed();
    } }, label());
    button.setAttribute("aria-label", "Switch between light and dark");
    const query = matchMedia("(prefers-color-scheme: dark)");
    const follow = () => {
      if (!button.isConnected) { query.removeEventListener("change", follow); return; }
      button.textContent = label();
      changed();
    };
    query.addEventListener("change", follow);
    return button;
  }

  // A row of radio buttons: choices are [value, label] pairs.
  function segments(name, legend, choices, value, chosen) {
    return element("fieldset", {}, element("legend", {}, legend), element("div", { class: "segments" },
      ...choices.map(([key, label]) => element("label", {},
        element("input", { type: "radio", name, value: key, checked: key === value, onchange: () => chosen(key) }),
        element("span", {}, label)))));
  }

  function checkbox(label, value, changed) {
    const box = element("input", { type: "checkbox", checked: value, onchange: () => changed(box.checked) });
    return element("label", { class: "check" }, box, label);
  }

  // The classes of text on a share of the heat; where black and white change places in dark, and in light.
  const over = (share) => (share > 0.775 ? "strong deep" : share > 0.575 ? "strong" : "");

  const percent = (share) => {
    const value = 100 * share;
    return `${value >= 9.95 || value === 0 ? value.toFixed(0) : value.toFixed(1)} %`;
  };

  return { element, token, direction, themeButton, isDark, segments, checkbox, over, percent };
})();
