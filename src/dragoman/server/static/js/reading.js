// A translated text under the reader's hands: looking at words, choosing others, looking inside.
import { ask } from "./api.js";
import { Beside } from "./beside.js";
import { Choices, choicesOf } from "./choices.js";
import { hideCut, showCut } from "./cut.js";
import { element, part, percent } from "./dom.js";
import { Gaze } from "./gaze.js";
import { say, showRefusal } from "./notice.js";
import { openView } from "./views.js";
import { Words } from "./words.js";

const PAUSE = 150; // ms on a word before the server is asked about it
const OTHERS = 7; // words at a place
const TOLD = 3; // words of the source that are named, with at least this share:
const LEAST = 0.05;

export class Reading {
  // sheet: the text; search(): how sentences are searched; changed(): called when the translation reads differently.
  constructor(sheet, search, changed) {
    Object.assign(this, { sheet, search, changed, translated: null, number: 0, timer: 0, asking: new AbortController() });
    this.words = new Words((spot) => this.look(spot), () => this.leave(), (spot) => this.open(spot));
    this.choices = new Choices(() => this.leave());
    this.beside = new Beside((number) => this.turn(number), (place) => this.choose(place), (name) => this.inside(name));
    part("result").addEventListener("focusin", () => {
      if (document.activeElement !== this.choices.anchor) this.choices.close();
      this.turn(this.words.spots[this.words.at]?.sentence ?? 0);
    });
  }

  show(translated) {
    this.drop();
    this.translated = translated;
    this.words.draw(translated);
    showCut(translated);
    part("legend").hidden = !this.words.spots.length;
    this.turn(0);
  }

  // Nothing is left to read.
  clear() {
    this.drop("");
    this.end();
  }

  // Only text is left: the beginning of a translation that was not finished, or nothing.
  end() {
    if (this.translated) this.drop("");
    this.beside.hide();
    part("legend").hidden = true;
  }

  // The translation is no longer that of the text; text: what stands in its place, null to leave it.
  drop(text = null, language = "") {
    this.asking.abort();
    this.asking = new AbortController();
    this.choices.close();
    this.leave();
    if (text === null) return;
    this.translated = null;
    hideCut();
    this.words.live(text, language);
    this.beside.rest();
  }

  turn(number) {
    if (!this.translated?.sentences[number]?.source) return this.beside.hide();
    this.number = number;
    this.words.current(number);
    this.beside.show(this.translated, number);
    return this.sheet.shade(this.translated, number);
  }

  // ---- looking at a word
  look(spot) {
    clearTimeout(this.timer);
    this.looking = spot;
    this.timer = setTimeout(() => this.tell(spot), PAUSE);
  }

  leave() {
    if (this.choices.anchor) return;
    clearTimeout(this.timer);
    this.looking = null;
    part("word").replaceChildren();
    if (this.translated) this.sheet.shade(this.translated, this.number);
  }

  async tell(spot) {
    const { translated } = this;
    const { wording } = translated.sentences[spot.sentence];
    const { text, confidence, place } = wording.words[spot.word];
    const told = [element("strong", { lang: translated.target }, element("bdi", {}, text)), `: ${percent(confidence)} sure. `];
    part("word").replaceChildren(...told);
    try {
      const seen = (await this.gaze(spot.sentence)).at(place);
      if (this.looking !== spot) return;
      if (seen) this.sheet.shade(translated, spot.sentence, seen);
      part("word").replaceChildren(...told, ...(seen ? sources(seen, translated.source) : []));
    } catch (error) {
      if (this.looking === spot) part("word").replaceChildren(...told, `What it looked at is not known. ${error.title ?? ""}`);
    }
  }

  // What the words of a sentence looked at, asked for once.
  gaze(number) {
    const { model, source, sentences } = this.translated;
    const sentence = sentences[number];
    const { wording } = sentence;
    wording.gaze ??= ask("v1/attention", { model, text: sentence.source, tgt: wording.text }, this.asking.signal)
      .then((data) => new Gaze(data, source));
    // What is refused for good is not asked for at every word.
    wording.gaze.catch((error) => { if (error.passes !== false) wording.gaze = null; });
    return wording.gaze;
  }

  // ---- choosing another word
  async open(spot) {
    const { model, target, sentences } = this.translated;
    const { source, wording } = sentences[spot.sentence];
    const prefix = wording.text.slice(0, wording.words[spot.word].place[0]);
    this.choices.wait(spot.element);
    await this.asked(async (signal) => {
      const options = { ...this.search(), n_best: 1 };
      const { alternatives } = await ask("v1/alternatives", { model, text: source, prefix, n: OTHERS, options }, signal);
      if (this.choices.anchor !== spot.element) return;
      this.choices.show(choicesOf(alternatives, prefix), wording.text, target, (choice) => this.take(spot.sentence, choice));
    }, () => this.open(spot));
  }

  take(number, { wording, word }) {
    this.translated.sentences[number].choose(wording);
    this.redraw(number);
    this.words.fresh(number, word);
    this.words.focus(this.words.spot(number, word));
  }

  choose(place) {
    this.translated.sentences[this.number].chosen = place;
    this.redraw(this.number);
  }

  redraw(number) {
    this.leave();
    this.words.draw(this.translated);
    showCut(this.translated);
    this.turn(number);
    say(this.translated.sentences[number].wording.text, this.translated.target);
    this.changed();
  }

  // ---- looking inside
  async inside(name) {
    const { model, sentences, source: from, target: to } = this.translated;
    const { source, wording, listed } = sentences[this.number];
    // A search for more translations goes on for longer.
    const options = { ...this.search(), n_best: wording.prefix === null ? listed : 1 };
    const body = {
      attention: { model, text: source, tgt: wording.text },
      replay: { model, text: source, prefix: wording.prefix, tgt: wording.text, options },
    }[name];
    await this.asked(async (signal) => {
      openView(name, await ask(`v1/${name}`, body, signal), { source: from, target: to });
    }, () => this.inside(name));
  }

  // Do what asks the server; a refusal is shown, with again as the way to try it once more.
  async asked(does, again) {
    const { signal } = this.asking;
    try {
      await does(signal);
    } catch (error) {
      this.choices.close(true);
      if (error.name !== "AbortError") showRefusal(error, again);
    }
  }
}

function sources(seen, language) {
  const most = seen.filter((one) => one.share >= LEAST).sort((one, other) => other.share - one.share).slice(0, TOLD);
  return most.length === 0 ? ["It looked at no word in particular."] : ["Looked at ", ...most.flatMap(({ text, share }, n) => [
    n ? ", " : "", element("bdi", { lang: language }, text), ` ${percent(share)}`]), "."];
}
