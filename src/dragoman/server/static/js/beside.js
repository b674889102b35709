// What is known of one sentence: the translations that the search found, and the ways to look inside.
import { element, part, speak } from "./dom.js";

export class Beside {
  // turn(number): another sentence; choose(place): another of its translations; look(name): attention or replay.
  constructor(turn, choose, look) {
    this.choose = choose;
    part("back").addEventListener("click", () => turn(this.number - 1));
    part("on").addEventListener("click", () => turn(this.number + 1));
    for (const name of ["attention", "replay"]) part(name).addEventListener("click", () => look(name));
  }

  hide() {
    part("beside").hidden = true;
  }

  // A translation is on its way; what is shown is of the one before.
  rest() {
    part("beside").inert = true;
  }

  show(translated, number) {
    this.number = number;
    const { sentences, source, target } = translated;
    const sentence = sentences[number];
    Object.assign(part("beside"), { hidden: false, inert: false });
    part("beside-title").textContent = sentences.length > 1 ? `Sentence ${number + 1} of ${sentences.length}` : "This sentence";
    part("steps").hidden = sentences.length < 2;
    this.steps(number, sentences.length - 1);
    part("sentence").textContent = sentence.source;
    speak(part("sentence"), source);
    const focused = part("found").contains(document.activeElement);
    part("found").replaceChildren(part("found").querySelector("legend"),
      ...sentence.found.map((wording, place) => this.row(wording, place, place === sentence.chosen, target)));
    if (focused) part("found").querySelector(":checked").focus();
  }

  // At either end a button has nothing to do; who stands on it goes on with the other one.
  steps(number, last) {
    const [back, on, focused] = [part("back"), part("on"), document.activeElement];
    back.disabled = number === 0;
    on.disabled = number === last;
    if (focused === back && back.disabled) on.focus();
    if (focused === on && on.disabled) back.focus();
  }

  row({ text, score, prefix, finished }, place, chosen, language) {
    return element("label", { class: "row" },
      element("input", { type: "radio", name: "wording", checked: chosen, onchange: () => this.choose(place) }),
      element("bdi", { lang: language, dir: "auto" }, text || "(nothing)"),
      element("span", { class: "quiet" }, prefix === null ? "" : "your choice, ", finished ? "" : "cut at its limit, ",
        `score ${score.toFixed(3).replace("-", "−")}`));
  }
}
