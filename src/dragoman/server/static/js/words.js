// The translation as words: shaded by how sure the model is, one tab stop, arrow keys from word to word.
import { direction, element, part, speak } from "./dom.js";

const LEVELS = [[0.9, 4], [0.7, 3], [0.4, 2], [0, 1]];
const level = (confidence) => LEVELS.find(([least]) => confidence >= least)[1];

export class Words {
  // look(spot): a word is pointed at or focused; leave(): none is any more; open(spot): its other words are wanted.
  // A spot is {sentence, word, element}; sentence and word are numbers.
  constructor(look, leave, open) {
    Object.assign(this, { root: part("result"), spots: [], at: 0, look, open });
    const spotOf = (event) => this.spots[Number(event.target.closest?.(".sure")?.dataset.spot ?? -1)];
    const on = (name, does) => this.root.addEventListener(name, (event) => {
      const spot = spotOf(event);
      if (spot) does(spot, event);
    });
    on("mouseover", (spot) => look(spot));
    on("focusin", (spot) => { this.stop(this.spots.indexOf(spot)); look(spot); });
    on("click", (spot) => {
      if (!getSelection().isCollapsed) return; // somebody marks text
      this.focus(this.spots.indexOf(spot));
      open(spot);
    });
    on("keydown", (spot, event) => this.key(spot, event));
    this.root.addEventListener("mouseleave", () => {
      const focused = this.spots.find((spot) => spot.element === document.activeElement);
      if (focused) look(focused);
      else leave();
    });
    this.root.addEventListener("focusout", (event) => { if (!this.root.contains(event.relatedTarget)) leave(); });
  }

  // Text while it is made.
  live(text, language) {
    this.spots = [];
    speak(this.root, language);
    this.root.replaceChildren(element("span", { class: "live" }, text));
    this.stale(false);
  }

  // The text before it changed: no longer the translation of what is there.
  stale(is) {
    this.root.classList.toggle("stale", is);
  }

  draw(translated) {
    this.spots = [];
    speak(this.root, translated.target);
    this.root.replaceChildren(...translated.sentences.flatMap((sentence, number) => [
      sentence.before, element("span", { class: "sentence" }, ...this.sentence(sentence.wording, number)), sentence.after,
    ]));
    this.stale(false);
    this.stop(0);
  }

  sentence({ text, words }, number) {
    const children = [];
    let at = 0;
    words.forEach(({ place: [start, end], confidence }, word) => {
      const sure = level(confidence);
      const made = element("span", {
        class: "sure", role: "button", tabindex: "-1", "aria-haspopup": "listbox", "aria-describedby": `sure-${sure}`,
        "data-sure": sure, "data-spot": this.spots.length,
      }, text.slice(start, end));
      children.push(text.slice(at, start), made);
      this.spots.push({ sentence: number, word, element: made });
      at = end;
    });
    children.push(text.slice(at));
    return children;
  }

  // Mark the sentence that the rest of the page is about; alone it needs no mark.
  current(number) {
    const all = [...this.root.querySelectorAll(".sentence")];
    all.forEach((one, n) => one.classList.toggle("current", n === number && all.length > 1));
  }

  // The words of a sentence from one on are new.
  fresh(sentence, word) {
    for (const spot of this.spots) {
      if (spot.sentence === sentence && spot.word >= word) spot.element.classList.add("fresh");
    }
  }

  spot(sentence, word) {
    return this.spots.findIndex((one) => one.sentence === sentence && one.word === word);
  }

  stop(number) {
    this.spots[this.at]?.element.setAttribute("tabindex", "-1");
    this.at = number;
    this.spots[number]?.element.setAttribute("tabindex", "0");
  }

  focus(number) {
    this.stop(Math.max(0, Math.min(this.spots.length - 1, number)));
    this.spots[this.at]?.element.focus();
  }

  key(spot, event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const here = this.spots.indexOf(spot);
    const onwards = direction(spot.element.parentElement.textContent) === "rtl" ? "ArrowLeft" : "ArrowRight";
    const backwards = onwards === "ArrowLeft" ? "ArrowRight" : "ArrowLeft";
    const first = (sentence) => this.spots.findIndex((one) => one.sentence === sentence);
    const target = {
      [onwards]: here + 1, [backwards]: here - 1, Home: 0, End: this.spots.length - 1,
      ArrowDown: first(spot.sentence + 1), ArrowUp: first(spot.sentence - 1),
    }[event.key];
    if (event.key === "Enter" || event.key === " ") this.open(spot);
    else if (target === undefined) return;
    else if (target >= 0 && target < this.spots.length) this.focus(target);
    event.preventDefault();
  }
}
