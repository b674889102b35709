// The other words at a place of the translation: a list below the word.
import { element, part, percent } from "./dom.js";
import { Wording } from "./translated.js";

const SHOWN = 60; // characters of what follows the word

// The choices among alternatives that all begin with prefix: {wording, word, next, rest, confidence}; word is the number
// of the word that differs, and next its text: null where the translation ends in its place.
export function choicesOf(alternatives, prefix) {
  const length = prefix.trimEnd().length;
  return alternatives.map((given) => {
    const { text, words } = new Wording(given);
    const word = words.findIndex(({ place: [, end] }) => end > length);
    if (word < 0) return { wording: new Wording(given, text), word: words.length - 1, next: null, rest: "", confidence: null };
    const { place: [, end], text: next, confidence } = words[word];
    return { wording: new Wording(given, text.slice(0, end)), word, next, rest: text.slice(end), confidence };
  });
}

export class Choices {
  // left(): called where the list closes and the focus does not go back to its word.
  constructor(left) {
    this.left = left;
    this.root = part("choices");
    this.list = null;
    this.anchor = null;
    document.addEventListener("pointerdown", (event) => { if (!this.root.contains(event.target)) this.close(); });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.anchor) { event.preventDefault(); this.close(true); }
    });
    this.root.addEventListener("focusout", ({ relatedTarget }) => {
      if (relatedTarget && !this.root.contains(relatedTarget)) this.close();
    });
    addEventListener("resize", () => this.place());
  }

  // Below anchor, a word: nothing yet.
  wait(anchor) {
    this.close();
    this.anchor = anchor;
    anchor.setAttribute("aria-expanded", "true");
    this.root.replaceChildren(element("p", { class: "quiet", role: "status" }, "Looking for other words …"));
    this.root.hidden = false;
    this.place();
  }

  // choices: of choicesOf; text: what is shown now; chosen(choice): called for the one that is chosen.
  show(choices, text, language, chosen) {
    const options = choices.map((choice, n) => option(choice, n, choice.wording.text === text, language));
    this.active = Math.max(0, choices.findIndex((choice) => choice.wording.text === text));
    const pick = (n) => { this.close(true); chosen(choices[n]); };
    this.list = element("div", {
      role: "listbox", tabindex: "0", "aria-label": `Other words in place of ${this.anchor.textContent}`,
      onkeydown: (event) => this.key(event, options, pick),
      onclick: (event) => { const one = event.target.closest("[role=option]"); if (one) pick(options.indexOf(one)); },
    }, ...options);
    this.root.replaceChildren(this.list, element("p", { class: "quiet hint" }, "What follows is translated again from there."));
    this.move(options, this.active);
    this.place();
    this.list.focus({ preventScroll: true });
    this.root.scrollIntoView({ block: "nearest" });
  }

  key(event, options, pick) {
    const last = options.length - 1;
    const target = {
      ArrowDown: Math.min(last, this.active + 1), ArrowUp: Math.max(0, this.active - 1), Home: 0, End: last,
    }[event.key];
    if (event.key === "Enter" || event.key === " ") pick(this.active);
    else if (target !== undefined) this.move(options, target);
    else if (event.key === "Tab") { this.close(true); return; }
    else return;
    event.preventDefault();
  }

  move(options, target) {
    options[this.active].classList.remove("active");
    this.active = target;
    options[target].classList.add("active");
    options[target].scrollIntoView({ block: "nearest" });
    this.list.setAttribute("aria-activedescendant", options[target].id);
  }

  place() {
    if (!this.anchor) return;
    const word = this.anchor.getBoundingClientRect();
    const [width, room] = [this.root.offsetWidth, document.documentElement.clientWidth];
    this.root.style.left = `${scrollX + Math.max(8, Math.min(word.left, room - width - 8))}px`;
    this.root.style.top = `${scrollY + word.bottom + 6}px`;
  }

  // back: the focus goes back to the word.
  close(back = false) {
    if (!this.anchor) return;
    const { anchor } = this;
    [this.anchor, this.list] = [null, null];
    anchor.removeAttribute("aria-expanded");
    this.root.hidden = true;
    this.root.replaceChildren();
    if (back) anchor.focus();
    else this.left();
  }
}

function option({ next, rest, confidence }, n, selected, language) {
  const after = rest.length > SHOWN ? `${rest.slice(0, SHOWN)}…` : rest;
  return element("div", { role: "option", id: `choice-${n}`, "aria-selected": String(selected) },
    element("span", { class: "tick", "aria-hidden": "true" }, selected ? "✓" : ""),
    element("bdi", { lang: next === null ? null : language, dir: "auto" }, element("strong", {}, next ?? "ends here"),
      element("span", { class: "quiet" }, after)),
    confidence === null ? null : element("span", { class: "share" }, percent(confidence)));
}
